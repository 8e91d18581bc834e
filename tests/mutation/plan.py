"""Which tests look at which part of the package, nearest first."""

# Tests of processes, memory and speed: what they look at, a mutant in plain Python has not.
SKIPPED = (
    "copy", "child", "fork", "left_behind", "eight_threads", "wake", "nvcc", "compiles_for", "packaged",
    "saves_iterations", "come_near_the_minimum", "full_batches_come", "fit_by_the_kernels", "read_only_memory",
    # long as Python, and told by shorter ones
    "[500-", "keeps_to_its_threads", "the_same_bits", "extreme-float32", "float32-3-", "large_constant",
    "cache_block",
)  # fmt: skip

_KERNEL = "tests/objective/test_cpu_kernel.py"
_BATCH = "tests/objective/test_batch_kernel.py"
_LOSSES = "tests/objective/test_losses.py"
_OBJECTIVE = "tests/objective/test_objective.py"
_CUDA = "tests/objective/test_cuda_pass.py"
_MOMENTS = "tests/objective/test_moments.py"
_SEQUENCES = "tests/objective/test_sequences.py"
_SEARCH = "tests/solvers/test_line_search.py"
_STEPS = "tests/solvers/test_lbfgs_steps.py"
_LBFGS = "tests/solvers/test_lbfgs.py"
_SGD = "tests/solvers/test_sgd.py"
_PROXIMAL = "tests/theory/test_theory_proximal.py"
_REPLICA = "tests/theory/test_theory_replica.py"
_LOCATION = "tests/theory/test_theory_location.py"
_BAYES = "tests/theory/test_theory_bayes.py"
_GAMP = "tests/theory/test_theory_gamp.py"
_POPULATION = "tests/theory/test_theory_population.py"
_DYNAMICS = "tests/theory/test_theory_sgd.py"
_MAP = "tests/theory/test_theory_replica_map.py"
_PARTS = "tests/theory/test_theory_proximal_steps.py"
_SOLUTIONS = [
    f"{_REPLICA}::test_{name}"
    for name in (
        "one_token_is_ridge_regression", "forms_of_init", "alpha_key", "offset", "fields_of_the_result",
        "a_law_of_lengths", "the_noise_is_in_the_errors", "too_few_iterations", "max_iter_bounds_the_evaluations",
        "both_warn_once_each", "low_penalties_warn", "the_error_estimate_is_the_spread_over_seeds",
    )
]  # fmt: skip
_BAD_INPUT = "tests/theory/test_theory_bad_input.py"

# Tests for a file's mutants as plain Python.
NEAREST = {
    "activations.py": ["tests/test_activations.py"],
    "_compiled.py": ["tests/test_compiled.py", _SEQUENCES, _KERNEL],
    "ragged/_segments.py": ["tests/ragged/test_segments.py"],
    "objective/_generic.py": [_OBJECTIVE, _LOSSES],
    "objective/_sequences.py": [_SEQUENCES, _KERNEL, _LOSSES],
    "objective/_cpu.py": [_KERNEL, _OBJECTIVE],
    "objective/_losses.py": [_LOSSES, _OBJECTIVE],
    "objective/_multinomial.py": [_LOSSES],
    "objective/_batch.py": [_BATCH],
    "objective/_blocks.py": [_BATCH, _LOSSES],
    "objective/_generic_batch.py": [_BATCH],
    "objective/_curvature.py": [
        f"{_BATCH}::test_gauss_newton_is_the_curvature_where_residuals_vanish",
        f"{_LOSSES}::test_gauss_newton_is_the_curvature_where_residuals_cancel",
        f"{_LOSSES}::test_the_curvature_along_a_rise_of_all_classes",
        f"{_BATCH}::test_the_cost_of_a_matrix_is_its_multiplications_over_those_of_a_pass",
    ],
    "objective/_coordinates.py": [_OBJECTIVE, _LOSSES],
    "objective/_moments.py": [_MOMENTS],
    "objective/_token_products.py": ["tests/objective/test_token_products.py", _KERNEL],
    "objective/_projection.py": [_OBJECTIVE, _BATCH, _LOSSES],
    "objective/_objective.py": [_OBJECTIVE, _LOSSES],
    "objective/_cuda.py": [_CUDA],
    "objective/_cuda_pass.cu": [_CUDA],
    "solvers/_curvature_pairs.py": [_STEPS, _LBFGS],
    "solvers/_array_pairs.py": [_STEPS],
    "solvers/_lbfgs.py": [_SEARCH, _STEPS, _LBFGS],
    "solvers/_lockstep.py": [_STEPS],
    "solvers/_sgd.py": [_SGD],
    "theory/_sensitivity.py": [
        f"{_MAP}::test_sensitivities_are_derivatives_of_the_proximal_point",
        f"{_MAP}::test_a_point_that_is_no_minimum_has_no_sensitivity",
    ],
    "theory/_proximal.py": [
        _PARTS,
        f"{_PROXIMAL}::test_derivatives_of_the_loss_in_the_scores",
        f"{_PROXIMAL}::test_derivatives_of_the_potential",
        f"{_PROXIMAL}::test_hard_cases_of_the_global_minimum",
        f"{_PROXIMAL}::test_without_a_search_the_minimum_at_hand_is_followed",
    ],
    "theory/_stability.py": [
        f"{_PROXIMAL}::test_hessian_of_the_loss_in_scores_and_values",
        f"{_MAP}::test_the_replicon_is_the_radius_of_the_mean_squares_of_the_derivatives",
    ],
    "theory/_replica_map.py": [_MAP],
    "theory/_location.py": [_LOCATION],
    "theory/_expectations.py": ["tests/theory/test_theory_expectations.py", _POPULATION],
    "theory/_overlaps.py": ["tests/theory/test_theory_overlaps.py"],
    "theory/bayes.py": [_BAYES, _BAD_INPUT],
    "theory/sgd.py": [_DYNAMICS, _BAD_INPUT],
    "theory/population.py": ["tests/theory/test_theory_population_parts.py", _POPULATION, _BAD_INPUT],
    "theory/gamp.py": [_GAMP],
    "theory/_fixed_point.py": ["tests/theory/test_theory_fixed_point.py"],
    "theory/_replica_solver.py": [_MAP, *_SOLUTIONS],
    "theory/replica.py": _SOLUTIONS,
}

# Files whose mutants are not in compiled code: their tests run it compiled.
COMPILED = {
    "theory/_stability.py", "theory/_replica_map.py", "theory/_expectations.py", "theory/_overlaps.py",
    "theory/bayes.py", "theory/sgd.py", "theory/population.py", "theory/gamp.py", "theory/_fixed_point.py",
    "theory/_replica_solver.py", "theory/replica.py",
}  # fmt: skip
