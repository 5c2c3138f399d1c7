"""What is promised: the public names, and that each is documented."""

import importlib
import inspect
import pkgutil

import pytest
from numpydoc.validate import validate

import scalefair
from scalefair._docs import documented

# The names of each package, sorted.
NAMES = {
    "scalefair": "__version__",
    "scalefair.cluster": """
        CoordinateDescentFairClustering FairAssignment FairKMeans
        FairSpectralClustering RefinedPartition UnifiedFairSpectralClustering
        fair_assignment refine_partition
    """,
    "scalefair.datasets": """
        fetch_a9a fetch_bank_additional fetch_bank_marketing fetch_bar_passage
        fetch_compas fetch_credit_default fetch_deezer_europe fetch_diabetes
        fetch_facebooknet fetch_lastfm_asia fetch_law_school fetch_pokec
        make_biased_rows make_elliptical make_fair_sbm make_group_gaussians
        make_random_affinity make_topic_documents
    """,
    "scalefair.decomposition": """
        ErrorWeightedFairPCA FairPCA GroupPCA JointNumericalRange SemidefiniteFairPCA
        joint_numerical_range
    """,
    "scalefair.files": """
        FileError Graph NpyReader NpzReader ParquetReader SvmlightReader clean_table
        open_rows read_graph read_table reading
    """,
    "scalefair.linalg": """
        AdmmResult EigenResult SpectralBounds ThickRestartLanczos chebyshev dc_admm
        dense_eigh dual lanczos lobpcg orthonormalize spectral_bounds
    """,
    "scalefair.linear_model": """
        PairwiseFairClassifier PartiallyFairClassifier PartiallyFairClassifierCV
        PenalizedPartialParityClassifier partial_fairness_path
    """,
    "scalefair.metrics": """
        balance_score group_auc_gap group_probabilities group_proportions
        inter_group_pairwise_gap intra_group_pairwise_gap minimum_balance_score
        moment_gaps normalized_cut_score null_parity_gap partial_demographic_parity_gap
        partial_equal_opportunity_gap partial_equalized_odds_gap partial_parity_gap
        statistical_parity_ks unmixed_parity_gap weak_partial_demographic_parity_gap
    """,
    "scalefair.operators": """
        AMGPreconditioner GroupCovariance NormalizedAffinity NormalizedOperator
        NullspaceProjector NystroemKernel PartitionedMatrix Projected RBFKernel
        SymmetricBlockOperator coarse_degree
    """,
    "scalefair.optimize": """
        AugmentedLagrangianResult ConcaveSearch ConstrainedValue DCProblem DCRecord
        DCResult FantopeResult KKTResidual ParityIsotonicResult SimplexResult
        SubproblemResult augmented_lagrangian direct_switching_subgradient idca
        maximize_on_simplex maximize_quadratic_on_simplex minimax_on_fantope
        nearly_kkt_residual parity_isotonic_regression proximal_bundle
        switching_subgradient
    """,
    "scalefair.plotting": """
        ClusterCompositionDisplay FairnessAccuracyDisplay GroupLossDisplay
        GroupRateDisplay JointNumericalRangeDisplay OutputDensityDisplay
        ParetoFrontDisplay ScoreDensityDisplay
    """,
    "scalefair.postprocessing": """
        DiscretizedTransportRegressor ExplainableSVDRegressor FairCalibratedClassifier
        WassersteinBarycenterRegressor fair_calibration_path
    """,
    "scalefair.streaming": """
        GroupMoments LocalParts PartitionedRows Parts RowReader is_partitioned
        row_blocks
    """,
}
PUBLIC = {module: names.split() for module, names in NAMES.items()}

# numpydoc's codes that are matters of taste, or of the class's own parameters.
_IGNORED = {"EX01", "SA01", "SA04", "ES01", "GL08", "SS06", "PR06", "PR08", "PR09"}
_IGNORED |= {"RT02", "RT04", "RT05", "YD01", "GL02", "SS05", "GL01"}

# Results, and an interface to implement.
_WITHOUT_EXAMPLE = """
    AdmmResult AugmentedLagrangianResult ConstrainedValue DCRecord DCResult
    EigenResult FairAssignment FantopeResult FileError JointNumericalRange
    KKTResidual ParityIsotonicResult SimplexResult SpectralBounds SubproblemResult
    SymmetricBlockOperator
"""

_OBJECTS = [
    f"{module}.{name}"
    for module, names in PUBLIC.items()
    for name in names
    if not name.startswith("__")
]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module):
    package = importlib.import_module(module)
    assert sorted(package.__all__) == PUBLIC[module]
    leaked = [
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and name not in package.__all__
    ]
    assert leaked in ([], ["annotations"])


def _methods(name):
    module, _, attribute = name.rpartition(".")
    value = getattr(importlib.import_module(module), attribute)
    if not inspect.isclass(value):
        return []
    return [
        f"{name}.{key}"
        for key, member in vars(value).items()
        if not key.startswith("_") and inspect.isfunction(member)
    ]


@pytest.mark.parametrize(
    "name", [*_OBJECTS, *(m for o in _OBJECTS for m in _methods(o))]
)
def test_docstring(name):
    checked = validate(name)
    docstring, ignored = checked["docstring"], set(_IGNORED)
    if "Attributes" in docstring and "Parameters" not in docstring:
        ignored.add("PR01")  # results: nobody constructs them
    problems = [p for p in checked["errors"] if p[0] not in ignored]
    assert not problems
    if name in _OBJECTS and not name.endswith(tuple(_WITHOUT_EXAMPLE.split())):
        assert "Examples" in docstring


def test_an_unknown_text_is_an_error():
    def function():
        """%(nothing)s"""

    with pytest.raises(KeyError, match="nothing"):
        documented()(function)


def documented_names(module):
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__:
            yield name, value
            if inspect.isclass(value):
                # As users read them: descriptors keep what they wrap.
                members = ((n, getattr(value, n, None)) for n in vars(value))
                yield from ((f"{name}.{n}", member) for n, member in members)


def test_every_docstring_is_filled():
    """With the shared paragraphs that it names."""
    names = [m.name for m in pkgutil.walk_packages(scalefair.__path__, "scalefair.")]
    unfilled = [
        f"{name}: {member}"
        for name in names
        if not name.endswith("__main__")
        for member, value in documented_names(importlib.import_module(name))
        if "%(" in (getattr(value, "__doc__", None) or "")
    ]
    assert not unfilled, "decorate with scalefair._docs.documented"
