"""The attention display: its arguments, and what it draws."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_attn import RaggedArray, SoftmaxAttentionClassifier, SoftmaxAttentionRegressor
from sklearn_attn.datasets import make_spiked_slr
from sklearn_attn.inspection import AttentionDisplay
from sklearn_attn.preprocessing import TokenTransformer


@pytest.fixture
def model(sequences):
    return SoftmaxAttentionRegressor(0.1).fit(sequences, np.arange(12.0))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_shows_the_weights_of_an_estimator(model, sequences):
    display = AttentionDisplay.from_estimator(
        model, sequences[:4], locations=[0, 0, 8, 1], labels=list("abcd")
    )
    for shown, expected in zip(display.weights, model.attention_weights(sequences[:4]), strict=True):
        np.testing.assert_array_equal(shown, expected[:, 0])
    assert display.plot() is display
    image = display.image_.get_array()
    assert image.shape == (4, 9)
    np.testing.assert_array_equal(image.mask.sum(axis=1), [6, 8, 0, 7])  # blank after the last token
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == list("abcd")
    assert display.figure_ is display.ax_.figure


def test_goes_through_a_pipeline(sequences):
    pipeline = make_pipeline(TokenTransformer(StandardScaler()), SoftmaxAttentionRegressor())
    pipeline.fit(sequences, np.arange(12.0))
    display = AttentionDisplay.from_estimator(pipeline, sequences)
    expected = pipeline[-1].attention_weights(pipeline[0].transform(sequences))
    np.testing.assert_array_equal(np.concatenate(display.weights), expected.values[:, 0])


def test_draws_on_given_axes():
    _, ax = plt.subplots()
    display = AttentionDisplay.from_weights([[0.2, 0.8], [1.0]]).plot(ax=ax, colorbar=False)
    assert display.ax_ is ax
    assert len(ax.figure.axes) == 1
    assert ax.get_xlim() == (-0.5, 1.5)


def test_negative_weights_have_a_colour_of_their_own():
    display = AttentionDisplay.from_weights([[-0.5, 2.0]]).plot()
    assert display.image_.get_clim() == (-2.0, 2.0)
    assert display.image_.get_cmap().name == "RdBu"  # white is zero, not blank


def test_a_search_and_a_transformed_target_are_unwrapped():
    X, y = make_spiked_slr(n_samples=60, n_features=4, signal=9.0, length=3, noise=0.1, random_state=0)
    expected = SoftmaxAttentionRegressor().fit(X, y).attention_weights(X[:3])
    search = GridSearchCV(
        make_pipeline(TokenTransformer(FunctionTransformer()), SoftmaxAttentionRegressor()), {}, cv=2
    )
    for model in (search, TransformedTargetRegressor(SoftmaxAttentionRegressor())):
        display = AttentionDisplay.from_estimator(model.fit(X, y), X[:3])
        np.testing.assert_allclose(np.concatenate(display.weights), expected.values[:, 0], rtol=1e-4)
    with pytest.raises(TypeError, match="Ridge has no attention_weights"):
        AttentionDisplay.from_estimator(Ridge(), X)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([],), ValueError, "at least one sequence"),
        (([[1.0]], [0, 0]), ValueError, "locations has 2 entries for 1 sequences"),
        (([[1.0]], [None]), TypeError, r"locations\[0\] must be an int"),
        (([[1.0]], [1]), ValueError, r"locations\[0\] = 1 lies outside sequence 0 of 1 tokens"),
        (([[1.0]], None, ["a", "b"]), ValueError, "labels has 2 entries"),
        (("weights",), TypeError, "RaggedArray or a list"),
    ],
)
def test_bad_arguments(arguments, error, message):
    names = ("locations", "labels")
    with pytest.raises(error, match=message):
        AttentionDisplay.from_weights(arguments[0], **dict(zip(names, arguments[1:], strict=False)))


def test_says_what_to_install_without_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "from sklearn_attn.inspection import AttentionDisplay\n"
        "AttentionDisplay.from_weights([[1.0]]).plot()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'sklearn_attn[plot]'" in run.stderr


def test_bars_are_as_high_as_weights(model, sequences):
    weights = [np.array([0.2, 0.8]), np.array([0.5, 0.1, 0.4])]
    display = AttentionDisplay.from_weights(weights, locations=[1, 0]).plot(kind="bars")
    for i, bars in enumerate(display.bars_):
        np.testing.assert_allclose([-bar.get_height() / 0.75 * 0.8 for bar in bars], weights[i])
        assert {bar.get_y() for bar in bars} == {i + 0.3}
    colors = [[bar.get_facecolor() for bar in bars] for bars in display.bars_]
    assert colors[0][1] == colors[1][0] != colors[0][0]
    assert "highest bar: attention weight 0.8" in display.ax_.get_ylabel()


def test_bars_of_negative_weights_go_down():
    display = AttentionDisplay.from_weights([np.array([1.0, -0.5])]).plot(kind="bars")
    up, down = (bar.get_height() for bar in display.bars_[0])  # the axis points down
    assert up == pytest.approx(-0.4)
    assert down == pytest.approx(0.2)


@pytest.mark.parametrize("kind", ["bars", "heatmap"])
def test_names_of_tokens_stand_at_their_tokens(kind):
    tokens = [["a", "b"], ["c", "d", "e"]]
    display = AttentionDisplay.from_weights([np.ones(2) / 2, np.ones(3) / 3], tokens=tokens).plot(kind=kind)
    written = {(text.get_text(), text.get_position()[0]) for text in display.ax_.texts}
    assert written == {("a", 0), ("b", 1), ("c", 0), ("d", 1), ("e", 2)}


@pytest.mark.parametrize("tokens", [[["a"]], [["a"], ["b", "c"]], ["ab", "abc"]])
def test_names_that_do_not_match_are_refused(tokens):
    with pytest.raises(ValueError, match="tokens"):
        AttentionDisplay.from_weights([np.ones(2) / 2, np.ones(3) / 3], tokens=tokens)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="'heatmap' or 'bars', got 'pie'"):
        AttentionDisplay.from_weights([np.ones(2)]).plot(kind="pie")


@pytest.mark.parametrize("kind", ["bars", "heatmap"])
def test_names_are_no_formulas(kind, tmp_path):
    display = AttentionDisplay.from_weights([[0.5, 0.5]], tokens=[["$5_", "and$"]], labels=[r"$\\foo$"])
    display.plot(kind=kind).figure_.savefig(tmp_path / "names.png")
    assert [text.get_text() for text in display.ax_.texts] == ["$5_", "and$"]
    assert (tmp_path / "names.png").stat().st_size > 0


def test_sequences_without_weights_are_refused():
    with pytest.raises(ValueError, match="none of them empty"):
        AttentionDisplay.from_weights([[], [1.0]])


def test_several_numbers_per_token_are_refused():
    with pytest.raises(ValueError, match=r"weights\[1\] must have shape \(L,\) or \(L, 1\).*got \(2, 3\)"):
        AttentionDisplay.from_weights([np.ones((4, 1)), np.ones((2, 3))])


def test_classifiers_in_searches_in_pipelines():
    rng = np.random.default_rng(0)
    X = RaggedArray.from_list([rng.standard_normal((length, 3)) for length in rng.integers(1, 6, 40)])
    y = [1, 0] * 20
    search = GridSearchCV(SoftmaxAttentionClassifier(), {"alpha": [0.1, 1.0]}, cv=2)
    pipeline = make_pipeline(TokenTransformer(StandardScaler()), search).fit(X, y)
    display = AttentionDisplay.from_estimator(pipeline, X[:3])
    expected = pipeline[-1].best_estimator_.attention_weights(pipeline[:-1].transform(X[:3]))
    for w, reference in zip(display.weights, expected, strict=True):
        np.testing.assert_array_equal(w, reference[:, 0])
