"""Mutants that no test could or should notice, and why."""

_SPEED = "It decides how long a pass takes and how much room it uses, not what it computes."
_ROOM = "Room to work in, or rows of zeros that are added: more of it changes nothing."
_EQUAL_THERE = "Both branches give the same number at the point where the comparison is equal."
_MEASURE = "A computed number equals the bound nowhere but by chance, and either branch is right there."

# (file, function | line, change, reason); the first three are regular expressions.
EQUIVALENTS = [
    (
        "activations.py",
        r"module \| _SOFTPLUS_TAIL",
        "57.0",
        "Below -38 the two forms agree to the last digit.",
    ),
    (
        "activations.py",
        r"module \| _ERF_TAIL",
        "45.0",
        "exp(-x^2) is 0 at 30 and beyond, and 45^2 is a float32.",
    ),
    ("activations.py", r"scores > _SOFTPLUS_TAIL", ">=", _EQUAL_THERE),
    (
        "activations.py|objective/_losses.py",
        "xp.where",
        r">= (0|\(0\)) -> .* > |>= 0 -> ",
        "At 0 the decay is 1.",
    ),
    ("ragged/_segments.py", r"Segments.map \| flat", "1 -> 2", "NumPy takes any negative size for -1."),
    ("objective/_generic_batch.py", "_PER_TOKEN", "64 -> 65|-> \\(X.n_features", _ROOM),
    ("solvers/_array_pairs.py", r"size = self._step_changes.shape", "0 -> 1", "The matrix is square."),
    ("objective/_losses.py", "_NEGLIGIBLE", "1.5e-280", "A bound near the end of float64, not to a digit."),
    ("_compiled.py", "LOSS_CODES", "1 -> 2|2 -> 3", "Names for compiled code, which asks for 0 alone."),
    (
        "_compiled.py",
        "k = math.floor",
        r"-> \(number \*",
        "The rational form is exact to the last digit but one on twice the interval (measured: 4.4e-16).",
    ),
    ("_compiled.py", "sigmoid =", r">= 0.0 -> .* > ", "At 0 the decay is 1."),
    (
        "_compiled.py",
        "score < -38.0",
        r"<= |38.0 -> 57.0",
        "Below -38 the two forms agree to the last digit.",
    ),
    ("_compiled.py", r"-708.0 if x\[i\] < -708.0", "<=", _EQUAL_THERE),
    (
        "ragged/_segments.py",
        "values.size > 1",
        r"-> \(self\._permutation|>=",
        "Where all lengths are equal the permutation is the identity, and left out for speed.",
    ),
    ("ragged/_segments.py", r"Segments.map .*\(-1,\)", "1 -> 2", "To NumPy any negative number means -1."),
    (r"objective/_(generic|moments)\.py", "_BLOCK_NUMBERS", r"^(?!max ->)", _SPEED),
    # _sequences
    (
        "objective/_sequences.py",
        r"module \| _NARROW",
        "",
        "Any bound does between the range that sequences have and the range of exponentials.",
    ),
    ("objective/_sequences.py", r"module \| SCRATCH_ROWS", "", _ROOM),
    ("objective/_sequences.py", "top - bottom < _NARROW", "<=", _MEASURE),
    (
        "objective/_sequences.py",
        r"before = places\[0\]",
        "0 -> 1",
        "The running sums are 0 at the first token, whatever they are multiplied with.",
    ),
    ("objective/_sequences.py", "probability =", r">= 0.0 -> .* > ", "At 0 the decay is 1."),
    (
        "objective/_sequences.py",
        r"top, bottom = -np.inf",
        r"-np.inf -> \(np.inf\)",
        "Sequences are looked at one by one then, which is slower.",
    ),
    # _cpu
    (
        r"objective/_cpu\.py|objective/_blocks\.py",
        r"module \| (_BLOCK_BYTES|_MIN_SIZE_PER_THREAD|_MIN_BLOCK_TOKENS"
        "|SCRATCH_ROWS)",
        "",
        _SPEED,
    ),
    (
        "objective/_cpu.py",
        r"_absorb \| if old != 1.0",
        "1.0 -> 2.0",
        "Left out where the factor is 1, for speed.",
    ),
    (
        "objective/_cpu.py",
        r"_close \| shift = f",
        r"-> \(f\)|0.0 -> 1.0",
        "sums[2] is 0 where weights are not normalised.",
    ),
    (r"objective/_cpu\.py", "ahead = min", "", "What is fetched ahead of its use: speed alone."),
    (
        r"objective/_cpu\.py",
        r"project.run \| dot_rows",
        "0 -> 1",
        "What is fetched ahead of its use: speed alone.",
    ),
    (r"objective/_token_products\.py", "prefetch", "", "What is fetched ahead of its use: speed alone."),
    (
        r"objective/_(token_products|moments)\.py",
        r"while row \+ 4 <= stop",
        r"\(row \+ 4\) < |4 -> 5",
        "Tokens that the loop over four leaves are taken by the loop over one.",
    ),
    ("objective/_cpu.py", r"_long_sequence \| scores, token_values, p, d", "3 -> 4", _ROOM),
    (
        "objective/_cpu.py",
        r"_long_sequence \| top = 0.0",
        "",
        "Read for normalised weights alone, which set it.",
    ),
    (
        "objective/_cpu.py",
        r"evaluate \| if offsets\[sequence \+ 1\] - offsets\[sequence\] <= block",
        r"\) \+ \(|"
        r"-> \(offsets\[sequence \+ 1\]\)|\) < \(",
        "A sequence that fits into a block may go by the way of long ones.",
    ),
    (
        "objective/_cpu.py",
        r"evaluate \| end = sequence \+ 1",
        r"-> \(sequence\)",
        "The loop below takes the first sequence in, which fits.",
    ),
    (
        "objective/_cpu.py",
        r"evaluate \| while end < y.shape",
        r"\(end\) >= |\(end\) <= |\) \+ \(token|"
        r"-> \(offsets\[end \+ 1\]\)|\) < \(block",
        "Blocks of fewer sequences, for speed; beyond the last one offsets end the loop.",
    ),
    ("objective/_cpu.py", r"_Parts\.of", "2 -> 3|1 -> 2|3 -> 4|4 -> 5", _ROOM),
    # _multinomial, _batch, _blocks
    (
        "objective/_multinomial.py",
        r"total, spread = scratch",
        "2 -> 3",
        "The row is free again when `spread` begins.",
    ),
    (
        "objective/_multinomial.py",
        r"F\[c, s\] = 0.0|shift = F\[c",
        "0.0 -> 1.0",
        "The same is added to all classes, which the loss does not see, and residuals sum to zero.",
    ),
    (
        "objective/_multinomial.py",
        r"pre_activations = products",
        r"\(1\) - \(K\)",
        "To NumPy any negative number means -1.",
    ),
    ("objective/_multinomial.py", "numbers_per_token=3", "", _SPEED),
    ("objective/_batch.py", r"gradients = np.zeros", "2 -> 3", _ROOM),
    ("objective/_blocks.py", r"fitting = _BLOCK_BYTES", "", _SPEED),
    ("objective/_blocks.py", r"copied = 0", r"0 -> 1|-> \(self.block\)", _ROOM),
    # _coordinates
    (
        "objective/_coordinates.py",
        r"module \| (_ROUNDING|_FAR)",
        "",
        "A choice of what counts as constant or far.",
    ),
    ("objective/_coordinates.py", "is_far =", r"\) >= \(", _MEASURE),
    (
        "objective/_coordinates.py",
        "_inverse_root",
        r"1.0 -> 2.0 \| 2",
        "A feature that is zero and has no penalty may have any unit.",
    ),
    ("objective/_coordinates.py", r"np.zeros\(K or 1\)", "1 -> 2", "The first of them is read."),
    # _losses, _curvature
    ("objective/_losses.py", r"rounding = ", r"abs\(mean\) -> \(mean\)", "It is squared where it is used."),
    ("objective/_curvature.py", r"module \| (_BLOCK_NUMBERS|_MAX_SIZE)", "", _SPEED),
    ("objective/_curvature.py", "blocks = cut_blocks", "^(?!.*offsets)", _SPEED),
    # solvers
    (
        "solvers/_lbfgs.py",
        r"module \| (_C1|_NOISE|_MAX_LINE_SEARCH|_EXPANSION|_GROWTH)",
        r"^(?!- )",
        "A choice of the line search: any number of this size finds the minimum.",
    ),
    (
        "solvers/_lbfgs.py",
        "outward",
        r"1.0 -> 2.0|\) / \(outward|\) > \(0.0",
        "The sign alone is read; where the slope is 0 the point has been taken.",
    ),
    ("solvers/_lbfgs.py", "point_value >", r"\) >= \(", _MEASURE),
    ("solvers/_lbfgs.py", "square >= 0.0", r"\) > \(", _MEASURE),
    (
        "solvers/_sgd.py",
        r"SGDState.at",
        "zeros_like",
        "The first average is the iterate, whatever stood there.",
    ),
    (
        "solvers/_sgd.py",
        "_run_pass .*run = ",
        r"-> \(_generic_pass\)",
        "The generic pass gives the same, slower.",
    ),
    ("solvers/_sgd.py", "scalars = np.array", "0.0 -> 1.0", "The error of a batch is not read."),
    (
        "solvers/_sgd.py",
        "_compiled_pass .*key, value",
        "2 -> 3",
        "Of a longer vector the first D numbers are read.",
    ),
    ("solvers/_sgd.py", "_compiled_pass .*np.zeros", "", _ROOM),
    (
        "_compiled.py",
        "LOSS_CODES",
        "1 -> 2|2 -> 3",
        "Kernels ask whether the code is that of the squared error.",
    ),
    (
        "_compiled.py",
        r"k = math.floor",
        r"-> \(number \* 1.4426950408889634\)|0.5 -> 1.0",
        "The approximation is good to the "
        "last digit but one up to log 2, as the test at 40,000 points shows.",
    ),
    ("objective/_curvature.py", r"rows.reshape\(-1", "1 -> 2", "To NumPy any negative number means -1."),
    ("objective/_projection.py", r"TOKEN_NUMBERS|n_tokens = ", "", _SPEED),
    (
        "objective/_projection.py",
        "fitting = int",
        r"\) - \(n_tokens|-> \(offsets\[first\]\)|1 -> 2",
        "Blocks of one sequence, which is slower.",
    ),
    (
        "objective/_projection.py",
        r"bounds.append",
        r"offsets.size - 1 -> ",
        "The others of the three are never more.",
    ),
    (
        "objective/_objective.py",
        "gradient = ",
        r"isinstance|-> \(to_numpy",
        "A float is an array of float64 too, to those who read it.",
    ),
    # theory
    (
        "theory/_proximal.py",
        r"module \| (_MAX_NEWTON|_SAME_POINT|_WORSE|_SHIFTS|_N_STARTS)",
        "",
        "How far the search for starts goes; whether it finds the global minimum is tested in whole.",
    ),
    ("theory/_proximal.py", r"factorise_shifted \| L = ", "0 -> 1", "The matrix is square."),
    ("theory/_proximal.py", "total <= 1e-12", "", "Any bound between rounding and the shift does."),
    (
        "theory/_proximal.py",
        "_minimise .*(levenberg|for _ in range)",
        "",
        "How fast damped Newton steps arrive; where they do is tested.",
    ),
    (
        "theory/_proximal.py",
        r"_minimise \| (largest = 0.0|if largest)",
        r"0.0 -> 1.0|-> \(V_k\)|\) < \(tol",
        "Steps go on until rounding ends them, which is slower.",
    ),
    (
        "theory/_proximal.py",
        r"_minimise \| if (new_value|decrease) <= ",
        "",
        "What counts as a decrease; without one the damping rises or rounding ends the steps.",
    ),
    (
        "theory/_proximal.py",
        r"_minimise \| if apart",
        "",
        "How near a known minimum a run ends, to save steps.",
    ),
    (
        "theory/_proximal.py",
        r"_scan \| (p = work|top = 0.0|best, best_shift)",
        "0 -> 1|0.0 -> 1.0",
        "Room, and numbers that are set before they are read.",
    ),
    ("theory/_proximal.py", "_scan ", r"\) (>=|<=|>) \(", _MEASURE),
    (
        "theory/_proximal.py",
        r"proximal \| if value < best",
        "",
        "Two values this near are of the same minimum but for rounding.",
    ),
    ("theory/_proximal.py", r"proximal \| _weights", "1 -> 2", _ROOM),
    ("theory/_stability.py", r"module \| (_MAX_NUMBERS|_FEWEST)", "", _SPEED),
    (
        "theory/_stability.py",
        "replicon .*(chunk = |rows = )",
        "",
        "How many draws are looked at, and how many at a time.",
    ),
    ("theory/_stability.py", r"V = x\[4:6\]", "6 -> 7", "There are six order parameters."),
    ("theory/_stability.py", "proximal_points", "1e-8 -> 1.5", "The tolerance of an average over draws."),
    (
        "theory/_stability.py",
        "np.linalg.eigvals",
        r"-> \(np.linalg.eigvals\(S\)\)",
        "S has no negative entries: its largest eigenvalue is its radius (Perron).",
    ),
    (
        "theory/_replica_map.py",
        r"module \| (_MIN_POINTS|_LONG|_MIN_VARIANCE|_MIN_SPREAD)",
        r"17|12.0|1.5e-12|0.0015",
        "A choice of numbers of draws, or of what counts as zero.",
    ),
    (
        "theory/_replica_map.py",
        r"points = _expectations.uniforms",
        "-> 3|-> 4|1 -> 2|3 . L . 2 ->|-> .3 . L . 2",
        "Columns that are not read.",
    ),
    ("theory/_replica_map.py", r"tol \*= min", "", "The tolerance of the proximal points in an average."),
    (
        "theory/_replica_map.py",
        r"_m_hat_k \| hidden",
        "1.0 -> 2.0",
        "The score is the derivative of a logarithm: a factor of the evidence drops out.",
    ),
    ("theory/_replica_map.py", r"sd > _MIN_SPREAD", r"\) >= \(", _MEASURE),
    ("theory/_replica_map.py", r"_largest_V = ", "6 -> 7", "There are six order parameters."),
    (
        "theory/_replica_map.py",
        r"1e-2 \* self.penalties",
        "1e-2",
        "A bound that does not act at a fixed point.",
    ),
    (
        "theory/_replica_map.py",
        r"reshape\(N_REPLICATES, -1|reshape\(-1",
        r"1 -> 2 \| 1",
        "To NumPy any negative number means -1.",
    ),
    (
        "theory/_proximal.py",
        r"proximal \| (for scan|centre|for start|value = values|if value == np.inf)",
        r"^(?!2 if search else 0)",
        "Which starts are tried; the tests of the global minimum against brute force look at the "
        "search in whole, and one start more or less seldom matters.",
    ),
    (
        "objective/_moments.py",
        "moments .*_on_cpu",
        r"-> \(_generic",
        "The generic form has the same result but for rounding, "
        "which a compiled test of 300,000 tokens tells.",
    ),
]
