"""Which tests look at which part of the package, nearest first."""

# Tests of processes, memory and speed: what they look at, a mutant in plain Python has not.
SKIPPED = (
    "copy", "child", "fork", "left_behind", "eight_threads", "wake", "nvcc", "compiles_for", "packaged",
    "saves_iterations", "come_near_the_minimum", "full_batches_come", "fit_by_the_kernels", "read_only_memory",
    # long as Python, and told by shorter ones
    "500", "keeps_to_its_threads", "the_same_bits", "extreme-float32", "float32-3-", "large_constant",
    "cache_block",
)  # fmt: skip

_KERNEL = "tests/objective/test_cpu_kernel.py"
_BATCH = "tests/objective/test_batch_kernel.py"
_LOSSES = "tests/objective/test_losses.py"
_OBJECTIVE = "tests/objective/test_objective.py"
_CUDA = "tests/objective/test_cuda_pass.py"
_MOMENTS = "tests/objective/test_moments.py"
_SEQUENCES = "tests/objective/test_sequences.py"
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
_BAD_INPUT = "tests/theory/test_theory_bad_input.py"

# Tests for a file's mutants as plain Python.
NEAREST = {
    "activations.py": ["tests/test_activations.py"],
    "_compiled.py": [_SEQUENCES, _KERNEL],
    "ragged/_segments.py": ["tests/ragged/test_segments.py"],
    "objective/_generic.py": [_OBJECTIVE, _LOSSES],
    "objective/_sequences.py": [_SEQUENCES, _KERNEL, _LOSSES],
    "objective/_cpu.py": [_KERNEL, _OBJECTIVE],
    "objective/_losses.py": [_LOSSES, _OBJECTIVE],
    "objective/_multinomial.py": [_LOSSES],
    "objective/_batch.py": [_BATCH],
    "objective/_blocks.py": [_BATCH, _LOSSES],
    "objective/_curvature.py": [_BATCH, _LOSSES],
    "objective/_coordinates.py": [_OBJECTIVE, _LOSSES],
    "objective/_moments.py": [_MOMENTS],
    "objective/_token_products.py": ["tests/objective/test_token_products.py", _KERNEL],
    "objective/_projection.py": [_OBJECTIVE, _BATCH, _LOSSES],
    "objective/_objective.py": [_OBJECTIVE, _LOSSES],
    "objective/_cuda.py": [_CUDA],
    "objective/_cuda_pass.cu": [_CUDA],
    "solvers/_curvature_pairs.py": [_STEPS, _LBFGS],
    "solvers/_lbfgs.py": [_STEPS, _LBFGS],
    "solvers/_lockstep.py": [_STEPS],
    "solvers/_sgd.py": [_SGD],
    "theory/_sensitivity.py": [_REPLICA],
    "theory/_stability.py": [_PROXIMAL, _REPLICA],
    "theory/_location.py": [_LOCATION],
    "theory/_expectations.py": [_POPULATION, _BAYES],
    "theory/_overlaps.py": ["tests/theory/test_theory_overlaps.py"],
    "theory/_proximal.py": [_PROXIMAL],
    "theory/_replica_map.py": [_REPLICA],
    "theory/_replica_solver.py": [_REPLICA],
    "theory/_fixed_point.py": ["tests/theory/test_theory_fixed_point.py"],
    "theory/bayes.py": [_BAYES],
    "theory/gamp.py": [_GAMP],
    "theory/population.py": [_POPULATION],
    "theory/sgd.py": [_DYNAMICS],
    "theory/replica.py": [_REPLICA],
}
