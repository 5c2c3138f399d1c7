"""The public data sets: their files, where these come from, what they hold."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A data set: its folder, its location on GitHub, its licence and description."""

    folder: str
    location: str  # owner/name/commit and a folder
    licence: str
    description: str  # the entry `DESCR` and the section Notes

    @property
    def page(self) -> str:
        """Page of the folder, pinned to a commit."""
        owner, name, commit = self.location.split("/", 2)
        return f"https://github.com/{owner}/{name}/tree/{commit}"

    def url(self, name: str) -> str:
        """Public address of the bytes that CHECKSUMS describes."""
        return f"{RAW}/{self.location}/{name}"


RAW = "https://raw.githubusercontent.com"

_UCI = "The UCI Machine Learning Repository gives CC BY 4.0 for"

# In the format of sha256sum; of the files as published, not of compressed copies.
_SHA256SUMS = """\
5f60fbb798900db29127baf74788e0d4c5d723934e757b1f759cffa7ca62a5f7  lastfm-asia/lastfm_clean_edges.csv
d131e2b75505d96c7c92c04c982168ce1565615b397fd1bef00ebe2aa300d1cf  lastfm-asia/lastfm_clean_countries.csv
6eadf517fe55872ed156f9f6fb3ff1637dbdf562586d0dad564859ecb81a5035  facebooknet/friendship_clean.csv
dd89bfcb1cb53d2e69f398e978093a992413bd3545717f2f8cecc923905bd822  facebooknet/group_clean.csv
a4aabf57e3eb20d40d5df7c7d15142b20656d9ca8f77a083106c1ee81226e530  deezer-europe/deezer_gendered_edges.csv
9d5c5736e1d55361e9caa5ae4f96ea5f40c3a70a8cfaad332defac9d84c6b2c6  deezer-europe/deezer_gendered_target.csv
6542a6bb38f2ea044d27315cb9479334012733d1a98d3bdd3e73fb0f89974f3f  pokec-region1/sparse_Pokec_graph_reg_1.npz
9e0aa08853cc428d11b6f12e022c342ed3361066ffea9a6c93e06f3fb205d962  pokec-region1/Pokec_feature_reg1.csv
c2778339a3e6622455e61df3f36f1bbb0c165b3746df95f8ea23a997c9ef79e4  pokec-region1/Pokec_label_reg1.csv
bde995d7cb02f5c72b7d5782437c8e2c2cde443fba21d7513cdfa0556adb5440  bank_marketing/bank.csv
74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8  bank-additional/bank-additional-full.csv
c58f7df737cb7953d9022cf9487cf8001c0417ae97bd308301ad733f20c88fc3  credit_default/default_degree.csv
23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452  lsac-law-school/law_school_clean.csv
76ebfdb0427ce8db038d53fa5943180ac77096bffb8264f000ed21e9f0ec82f2  lsac-bar-pass/bar_pass_prediction.csv
c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d  compas-propublica/compas-scores-two-years.csv
7ba53cccb27e2e525f0fb173e1f446d49856e3fb007eb43be4ec6d0f5b3335ca  a9a/a9a
1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9  a9a/a9a.t
f82ac129da2ddd2299391ff6fbae3a6a58b3edcf59ac9d7bd480c00fe453112a  diabetes-tabular/diabetes.zip
"""  # noqa: E501
CHECKSUMS = {path: sha256 for sha256, path in map(str.split, _SHA256SUMS.splitlines())}

LASTFM = Source(
    folder="lastfm-asia",
    location="jiiwang/scalable_fair_spectral_clustering/e9ae75fc/test/lastfm",
    licence=(
        "No licence is stated with the cleaned files. The original data are published "
        "in benedekrozemberczki/FEATHER under the MIT licence."
    ),
    description="""\
LastFM Asia (LastFMNet in the fair spectral clustering papers).

Mutual followers on the music service Last.fm in Asia, March 2020, in the six countries
with at least 500 users. Nodes are 5713 users, groups are country codes (0, 3, 6, 10,
14, 17), `node_ids` are the ids of the original graph of 7624 users. 39214 stored
entries; 118 components, 102 of them isolated nodes; the largest (5576 nodes, 39174
entries, groups of 1073, 505, 645, 1266, 558 and 1529) is the graph of the papers.

Rozemberczki and Sarkar, "Characteristic Functions on Graphs: Birds of a Feather",
CIKM 2020; cleaned by Wang, Lu, Davidson and Bai, "Scalable Spectral Clustering with
Group Fairness Constraints", AISTATS 2023.
""",
)

FACEBOOKNET = Source(
    folder="facebooknet",
    location="jiiwang/scalable_fair_spectral_clustering/e9ae75fc/test/friendship",
    licence=(
        "SocioPatterns distributes its data under a Creative Commons "
        "Attribution-NonCommercial-ShareAlike licence; no licence is stated with the "
        "cleaned files."
    ),
    description="""\
FacebookNet: Facebook friendships between students of a high school in Marseilles,
December 2013, collected by SocioPatterns.

Nodes are the 322 students of known gender, `node_ids` their numbers; groups are
0 (female) and 1 (male). 1412 friendships. The largest component (155 nodes, 2824
entries, groups of 70 and 85) is the graph of the papers; all other nodes are isolated.
Pairs known not to be friends (weight 0 in the file) are not edges.

Mastrandrea, Fournet and Barrat, "Contact Patterns in a High School", PLoS ONE
10(9):e0136497, 2015.
""",
)

DEEZER = Source(
    folder="deezer-europe",
    location=(
        "benedekrozemberczki/FEATHER/045db7963fb367eb9aed6439ceea96320e8ac7cc/"
        "new_node_level_dataset"
    ),
    licence="MIT (repository benedekrozemberczki/FEATHER).",
    description="""\
Deezer Europe: mutual follower relations among European users of the music service
Deezer, collected in March 2020.

28281 nodes, 92752 friendships, connected. Groups are the users' gender, derived from
their names by the authors, who do not say which is which: 15743 (0) and 12538 (1).

Rozemberczki and Sarkar, "Characteristic Functions on Graphs: Birds of a Feather",
CIKM 2020.
""",
)

POKEC = Source(
    folder="pokec-region1",
    location="SiamakGhodsi/DFNMF/eb17cb4b/data/Pokec/pre_processed/n",
    licence="No licence is stated with the files.",
    description="""\
Pokec, regional sample 1: friendships in a region of the Slovak social network Pokec.

67796 nodes, 617958 friendships, 170 components (the largest has 67435 nodes). Groups
are age bands: 1 (up to 18, 31961 users), 2 (19 to 25, 17862), 3 (26 to 35, 12311) and
4 (from 36, 5662). `target` is the working field, -1 for none.

Takac and Zabovsky, "Data Analysis in Public Social Networks", 2012 (SNAP soc-Pokec);
regional sample by Dai and Wang (FairGNN), "Say No to the Discrimination", WSDM 2021;
prepared by the authors of DFNMF.
""",
)

BANK = Source(
    folder="bank_marketing",
    location="GuilhermePelegrina/Datasets/dac2c9f/FPCA",
    licence=f"{_UCI} data set 222; no licence is stated with the encoded file.",
    description="""\
Bank marketing: 45211 telephone calls of a Portuguese bank's campaigns for a term
deposit, with what the bank knew of the client.

Groups are clients of 65 years or older (810, whom the papers on fair PCA call the
younger ones) and younger ones (44401). Features are the 16 columns other than the age,
categories as numbers; the outcome y is one of them, as in the papers, unless
`keep_outcome=False`. With `preprocess=True` each has mean 0 and variance 1 (divided by
n - 1) over all rows.

Moro, Cortez and Rita, "A data-driven approach to predict the success of bank
telemarketing", Decision Support Systems 62, 2014. UCI Machine Learning Repository,
data set 222; numeric encoding by G. D. Pelegrina, for "A novel approach for fair
principal component analysis based on eigendecomposition" (with L. T. Duarte, 2023).
""",
)

BANK_ADDITIONAL = Source(
    folder="bank-additional",
    location=(
        "PacktPublishing/Power-BI-for-Finance/cd9845e0b90fba57578305409248f7c9a4d79e0e"
    ),
    licence=f"{_UCI} data set 222; the file is taken from a copy on GitHub.",
    description="""\
Bank marketing with economic indicators (bank-additional-full): 41188 telephone calls of
a Portuguese bank's campaigns for a term deposit, May 2008 to November 2010, in the
order of time. The target is 1 for the 4640 calls that led to a deposit.

Groups are the clients aged 25 to 60, both included ("25-60": 39210, 10.1 % with target
1), and the younger and older ones ("other": 1978, 33.9 %).

Features (53): 10 numbers, the age among them, then for each of 10 categorical
attributes one column per value but the first in alphabetical order; "unknown" is a
value like any other. With `preprocess=True` the numbers have mean 0 and variance 1
(divided by n) over all rows. With the group they are as many as in the paper on
partially fair classification (He, Huang, Yao and Lin, "Enforcing fairness where it
matters", appendix D.1), which does not list them.

The duration of a call is known only after it and leaks the outcome. pdays is 999 for
clients who were not called before.

Moro, Cortez and Rita, "A data-driven approach to predict the success of bank
telemarketing", Decision Support Systems 62, 2014. UCI Machine Learning Repository,
data set 222.
""",
)

CREDIT = Source(
    folder="credit_default",
    location="GuilhermePelegrina/Datasets/dac2c9f/FPCA",
    licence=f"{_UCI} data set 350; no licence is stated with the arranged file.",
    description="""\
Default of credit card clients: 30000 clients of a bank in Taiwan, October 2005: credit
limit, sex, education, marital status, age, and six months of payments and bills.

EDUCATION is 1 graduate school, 2 university, 3 high school, 4 others, and the codes
0, 5 and 6 without a meaning in the documentation (14, 280 and 51 clients). Groups, by
`n_groups`:

- 2: "graduate school" (EDUCATION 0 or 1: 10599) and "other" (19401)
- 3: "college" (0, 1, 2: 24629), "high school" (3: 4917), "other" (4, 5, 6: 454)
- 4: "man, college" (9736), "man, other" (2152), "woman, college" (14893),
  "woman, other" (3219), where college is EDUCATION 0, 1, 2
- 6: "man, college" (9736), "man, high school" (1990), "man, other" (162),
  "woman, college" (14893), "woman, high school" (2927), "woman, other" (292)

With two groups the features are all columns but ID and EDUCATION, the default among
them, and with `preprocess=True` each has mean 0 and variance 1 (divided by n - 1). With
more groups, EDUCATION is a feature and the default is not, and with `preprocess=True`
each column is divided by its standard deviation, where the six columns of repayment
status, of bills and of payments each share that of all their entries; the means stay.
Both follow the papers on fair PCA: for two groups Shen, Davis, Lu and Bai, "Fair
principal component analysis via eigenvalue optimization", for more Tantipongpipat,
Samadi, Singh, Morgenstern and Vempala, "Multi-criteria dimensionality reduction with
applications to fairness", NeurIPS 2019.

Yeh and Lien, "The comparisons of data mining techniques for the predictive accuracy of
probability of default of credit card clients", Expert Systems with Applications 36,
2009. UCI Machine Learning Repository, data set 350; file as arranged by
G. D. Pelegrina.
""",
)

LAW_SCHOOL = Source(
    folder="lsac-law-school",
    location="tailequy/fairness_dataset/abb5a18/experiments/data",
    licence="No licence is stated with the cleaned file.",
    description="""\
Law school: 20798 students of US law schools who entered in 1991. The target is 1 for
the 18505 students who passed the bar exam, 0 for the other 2293.

Groups are "White" (17491) and "Non-White" (3307) students, as in the cleaned file.

Features (10): decile of the grades in the first and the third year (decile1b, decile3),
admission test (lsat), undergraduate grades (ugpa), standardised grades of the first
year and overall (zfygpa, zgpa), full time or not (fulltime, 1 or 2), family income in
five brackets (fam_inc), sex (male, 1 or 0) and the tier of the school, 1 to 6. With
`preprocess=True` each has mean 0 and variance 1 (divided by n) over all rows. No value
is missing.

Wightman, "LSAC National Longitudinal Bar Passage Study", Law School Admission Council,
1998; cleaned by Le Quy, Roy, Iosifidis, Zhang and Ntoutsi, "A survey on datasets for
fairness-aware machine learning", WIREs Data Mining and Knowledge Discovery, 2022.
""",
)

BAR_PASSAGE = Source(
    folder="lsac-bar-pass",
    location="TheRohanVerma/CMPUT622_FairSMOTE_vs_FairClassBal/a895803/data",
    licence="No licence is stated with the file.",
    description="""\
Bar passage: students of US law schools who entered in 1991, for regression. The target
is the undergraduate grade point average (ugpa), 1.5 to 3.9.

Groups are "black" (1343 students, mean target 2.89) and "white" (18716, 3.25), 20059
together; with groups="all" also "asian" (897), "hisp" (1027) and "other" (408), 22391
together. The 16 students of unknown race are left out.

Features (5), as in the file: dnn_bar_pass_prediction, the admission test (lsat, 11 to
48), whether the student passed the bar exam in the end (pass_bar, 1 or 0), and one
indicator each for female and male students. Both indicators are 0 for the 4 students of
unknown gender. The features are not scaled: fit a scaler on the training rows.

dnn_bar_pass_prediction leaks the target: it is the output of a neural network that was
given the undergraduate grades, added for a tutorial by the authors of TensorFlow. It is
kept because the papers on fair regression use it (Zuo, Zhu and Khalili,
"Post-processing for fair regression via explainable SVD"); leave out the first column
for an honest error.

Wightman, "LSAC National Longitudinal Bar Passage Study", Law School Admission Council,
1998.
""",
)

COMPAS = Source(
    folder="compas-propublica",
    location="propublica/compas-analysis/bafff5d",
    licence="No licence is stated with the file, which ProPublica published.",
    description="""\
COMPAS: defendants of Broward County, Florida, scored for their risk of a new crime in
2013 and 2014, and what happened in the two years after. The target (two_year_recid) is
1 for those charged with a new crime within two years.

With `screened=True`, ProPublica's filter, 6172 of the 7214 defendants remain, 2809 of
them with target 1: those arrested at most 30 days before or after the scoring, for an
offence that may bring jail, whose new charges and score are known.

Groups are "African-American" (3175 of the 6172) and "other" (2997). With groups="all"
the latter are "Caucasian" (2103), "Hispanic" (509), "Other" (343), "Asian" (31) and
"Native American" (11).

Features (9): age, counts of juvenile felonies, misdemeanours and other offences, count
of earlier crimes, and one indicator for each sex and for each degree of the charge,
felony (F) or misdemeanour (M). They are not scaled: fit a scaler on the training rows.

With features="paper" there are 14, those of Zuo, Zhu and Khalili, "Post-processing for
fair regression via explainable SVD": the same numbers, the COMPAS scores for any and
for violent crime (decile_score, v_decile_score), an indicator of male defendants, and
six dates in years since the beginning of 2013, which the paper scales to [0, 1].
Defendants without some date are left out: 5855 of the 7214 remain, 5388 of the 6172.

The dates leak the target. in_custody and out_custody are often those of a later arrest;
and the file holds those scored after 1 April 2014 (868 of the 6172, 998 of the 7214)
only if they were charged again, so that any date of that time tells the target, 1
(Barenstein, "ProPublica's COMPAS data revisited", 2019).

Being charged is not committing a crime, and need not follow it alike in all groups.

Larson, Mattu, Kirchner and Angwin, "How we analyzed the COMPAS recidivism algorithm",
ProPublica, 2016.
""",
)

A9A = Source(
    folder="a9a",
    location="dtera/fl_xgboost/0abd2e16/data",
    licence=f"{_UCI} the Adult data; no licence is stated with the encoded files.",
    description="""\
a9a: the Adult data (US census of 1994) as 123 binary features, 32561 persons to train
on and 16281 to test on. The target is 1 for an income above 50000 dollars a year.

Groups are the two sexes of the census: 10771 "Female" and 21790 "Male" in the training
rows, of whom 10.9 % and 30.6 % have the target 1; 5421 and 10860 in the test rows. The
two columns of the sex are among the features. About 14 features of a row are 1.

Categories have one column per value and none for a missing value; the numbers of the
census (age, sampling weight, years of education, gains, losses, hours) are cut into
ranges. The published files do not name the features: the names were found by
comparison with the original table.

Becker and Kohavi, UCI Machine Learning Repository, data set 2 (Adult), 1996; encoded by
J. Platt, "Fast training of support vector machines using sequential minimal
optimization", 1998; distributed by LIBSVM (Chang and Lin).
""",
)

DIABETES = Source(
    folder="diabetes-tabular",
    location="minhphuv/R-FairSC/df986386/data/diabetes/diabetes/raw",
    licence="CC BY 4.0 (UCI Machine Learning Repository, data set 296).",
    description="""\
Diabetes 130-US hospitals for years 1999-2008: 101766 hospital stays of 71518 patients
with diabetes, encoded as numbers for a nearest-neighbour graph.

Numeric features (8): days in hospital, laboratory procedures, procedures,
medications, diagnoses, and outpatient, emergency and inpatient visits in the year
before, the three visits as log(1 + count). Each has mean 0 and variance 1.

Categorical features, one column per value: admission type and source, discharge,
glucose and A1C results, change of medication, diabetes medication prescribed, the
dose of insulin and of the seven other drugs given in at least 1 % of the stays, and
the primary diagnosis by ICD-9 chapter. A column is 1 / sqrt(2) where the value
applies and 0 elsewhere: stays that differ in one attribute are at distance 1. Codes of
less than 1 % of the stays, and the rarer chapters, share a column "other"; codes for
not available, not mapped and null share "unknown".

Race, gender and age are never among the features, nor are the identifiers, weight,
payer code and medical specialty (missing in 40 to 97 % of the stays), and the outcome.

Missing values: "?" becomes the group "Unknown" (race: 2273 stays; gender: 3) or the
feature value "unknown" (primary diagnosis: 21).

`target` is the readmission: "<30" (within 30 days), ">30" or "NO". `node_ids` are the
encounter ids.

Strack et al., "Impact of HbA1c Measurement on Hospital Readmission Rates", BioMed
Research International, 2014. UCI Machine Learning Repository, data set 296.
""",
)
