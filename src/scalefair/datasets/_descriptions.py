"""What `DESCR` and `licence` say for each public data set."""

LASTFM = """\
LastFM Asia (LastFMNet in the fair spectral clustering papers).

Mutual follower relations among users of the music service Last.fm in Asia, collected
in March 2020, restricted to the six countries with at least 500 users. Nodes are 5713
users, groups are country codes (0, 3, 6, 10, 14, 17), `node_ids` are the ids of the
original graph of 7624 users. 118 components; the largest (5576 nodes, 39174 entries,
groups of 1073, 505, 645, 1266, 558 and 1529) is the graph of the papers.

Rozemberczki and Sarkar, "Characteristic Functions on Graphs: Birds of a Feather",
CIKM 2020; cleaned by Wang, Lu, Davidson and Bai, AISTATS 2023.
"""
LASTFM_LICENCE = (
    "No licence is stated with the cleaned files. The original data are published in "
    "benedekrozemberczki/FEATHER under the MIT licence."
)

FACEBOOKNET = """\
FacebookNet: Facebook friendships between students of a high school in Marseilles,
December 2013, collected by SocioPatterns.

Nodes are the 322 students of known gender, `node_ids` their numbers; groups are
0 (female) and 1 (male). 1412 friendships. The largest component (155 nodes, 2824
entries, groups of 70 and 85) is the graph of the papers; all other nodes are isolated.

Mastrandrea, Fournet and Barrat, PLoS ONE 10(9):e0136497, 2015.
"""
FACEBOOKNET_LICENCE = (
    "SocioPatterns distributes its data under a Creative Commons Attribution-"
    "NonCommercial-ShareAlike licence; no licence is stated with the cleaned files."
)

DEEZER = """\
Deezer Europe: mutual follower relations among European users of the music service
Deezer, collected in March 2020.

28281 nodes, 92752 friendships, connected. Groups are the users' gender, derived from
their names by the authors: 15743 (0) and 12538 (1).

Rozemberczki and Sarkar, "Characteristic Functions on Graphs: Birds of a Feather",
CIKM 2020.
"""
DEEZER_LICENCE = "MIT (repository benedekrozemberczki/FEATHER)."

POKEC = """\
Pokec, regional sample 1: friendships in a region of the Slovak social network Pokec.

67796 nodes, 617958 friendships, 170 components (the largest has 67435 nodes). Groups
are age bands: 1 (up to 18, 31961 users), 2 (19 to 25, 17862), 3 (26 to 35, 12311) and
4 (from 36, 5662). `target` is the working field, -1 for none.

Takac and Zabovsky 2012 (SNAP soc-Pokec); regional sample by Dai and Wang (FairGNN),
WSDM 2021; prepared by the authors of DFNMF.
"""
POKEC_LICENCE = "No licence is stated with the files."

DIABETES = """\
Diabetes 130-US hospitals for years 1999-2008: 101766 hospital stays of 71518 patients
with diabetes, encoded as numbers for a nearest-neighbour graph.

Numeric features (8): days in hospital, laboratory procedures, procedures,
medications, diagnoses, and outpatient, emergency and inpatient visits in the year
before; the three counts of visits are heavy-tailed and taken as log(1 + count). Each
has mean 0 and variance 1.

Categorical features, one column per value: admission type and source, discharge,
glucose and A1C results, change of medication, diabetes medication prescribed, the
dose of insulin and of the seven other drugs given in at least 1 % of the stays, and
the primary diagnosis by ICD-9 chapter. A column is 1 / sqrt(2) where the value
applies and 0 elsewhere, so two stays that differ in one attribute are at distance 1,
one standard deviation of a numeric feature. Codes of admission and discharge in less
than 1 % of the stays share a column "other", as do the rarer ICD-9 chapters; codes for
not available, not mapped and null share "unknown".

Race, gender and age are never among the features, nor are the identifiers, weight,
payer code and medical specialty (missing in 40 to 97 % of the stays), and the outcome.

Missing values: "?" becomes the group "Unknown" (race: 2273 stays; gender: 3) or the
feature value "unknown" (primary diagnosis: 21).

`target` is the readmission: "<30" (within 30 days), ">30" or "NO". `node_ids` are the
encounter ids.

Strack et al., "Impact of HbA1c Measurement on Hospital Readmission Rates", BioMed
Research International, 2014. UCI Machine Learning Repository, data set 296.
"""
DIABETES_LICENCE = "CC BY 4.0 (UCI Machine Learning Repository, data set 296)."
