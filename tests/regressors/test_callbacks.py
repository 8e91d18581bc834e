"""scikit-learn's callbacks, from its version 1.9 on, see every iteration and may stop it."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sklearn_attn import SoftmaxAttentionClassifier, SoftmaxAttentionRegressor, SoftmaxAttentionRegressorCV
from sklearn_attn.datasets import make_spiked_slr

callback = pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")


class Recorder:
    """Notes all tasks, and stops an iteration when it is told to."""

    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.begun, self.ended, self.fitted, self.data = [], [], [], []
        self.is_set_up = self.is_torn_down = False

    def setup(self, estimator, context):
        self.is_set_up = True

    def teardown(self, estimator, context):
        self.is_torn_down = True

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.begun.append(context.task_name)
        self.data.append((X, y, metadata))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended.append(context.task_name)
        self.fitted.append(fitted_estimator)
        return context.task_name == "iteration" and context.task_id + 1 == self.stop_at


@pytest.fixture(scope="module")
def data():
    return make_spiked_slr(100, 5, signal=9.0, random_state=0)


@pytest.mark.parametrize("solver", ["lbfgs", "sgd"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_start_and_iteration_is_a_task(data, solver):
    recorder = Recorder()
    model = SoftmaxAttentionRegressor(solver=solver, n_init=2, max_iter=8, random_state=0)
    weight = np.ones(100)
    model.set_callbacks(recorder).fit(*data, sample_weight=weight)
    assert recorder.is_set_up
    assert recorder.is_torn_down
    assert (recorder.begun[0], recorder.ended[-1]) == ("fit", "fit")
    assert recorder.ended.count("start") == 2
    assert recorder.ended.count("iteration") == recorder.begun.count("iteration") >= model.n_iter_
    X, y, metadata = recorder.data[0]
    assert X is data[0]
    assert y is data[1]
    assert metadata["sample_weight"] is weight
    np.testing.assert_array_equal(recorder.fitted[-1].predict(X), model.predict(X))
    plain = clone(model).set_callbacks().fit(*data)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))


def test_estimators_on_the_way_predict_better_and_better(data):
    recorder = Recorder()
    SoftmaxAttentionRegressor().set_callbacks(recorder).fit(*data)
    steps = zip(recorder.ended, recorder.fitted, strict=True)
    models = [model for name, model in steps if name == "iteration"]
    scores = [model.score(*data) for model in models]
    assert scores[0] < scores[-1] - 0.1


def test_classifiers_on_the_way_know_their_classes(data):
    X, y = data
    recorder = Recorder()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-1.0, 1.0])]
    model = SoftmaxAttentionClassifier().set_callbacks(recorder).fit(X, labels)
    assert recorder.ended.count("iteration") == model.n_iter_
    scores = [fitted.score(X, labels) for fitted in recorder.fitted]
    assert scores[0] < scores[-1] == model.score(X, labels)


def test_a_callback_stops_a_fit_without_a_warning(data):
    model = SoftmaxAttentionRegressor().set_callbacks(Recorder(stop_at=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*data)
    assert model.n_iter_ == 3
    assert model.stop_crit_ > model.tol


class Failing(Recorder):
    """Fails at the end of the whole fit."""

    def on_fit_task_end(self, estimator, context):
        if context.parent is None:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "model", [SoftmaxAttentionRegressor(), SoftmaxAttentionRegressorCV([0.1, 1.0], cv=2)]
)
def test_an_error_in_the_last_hook_leaves_the_estimator_as_it_was(data, model):
    X, y = data
    model = clone(model).fit(X, y)
    before = model.key_.copy()
    failing = Failing()
    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(failing).fit(X[:50], y[:50])
    np.testing.assert_array_equal(model.key_, before)
    assert failing.is_torn_down


class StopsAfterAStart(Recorder):
    """Asks to stop when the first start has ended."""

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        return context.task_name == "start"


def test_a_callback_stops_further_starts(data):
    recorder = StopsAfterAStart()
    SoftmaxAttentionRegressor(n_init=3, random_state=0).set_callbacks(recorder).fit(*data)
    assert recorder.ended.count("start") == 1


def test_a_weight_for_all_reaches_scorers_as_an_array(data):
    recorder = Recorder()
    SoftmaxAttentionRegressor().set_callbacks(recorder).fit(*data, sample_weight=2.0)
    np.testing.assert_array_equal(recorder.data[0][2]["sample_weight"], np.full(100, 2.0))


@pytest.mark.parametrize("with_callback", [False, True])
def test_warnings_point_at_the_caller(data, with_callback):
    model = SoftmaxAttentionRegressor(max_iter=1)
    if with_callback:
        model.set_callbacks(Recorder())
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*data)
    assert caught[0].filename == __file__
    model = SoftmaxAttentionClassifier(max_iter=1)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(data[0], data[1] > 0)
    assert caught[0].filename == __file__
    model = SoftmaxAttentionRegressorCV([0.1, 1.0], max_iter=1)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*data)
    assert caught[0].filename == __file__


def test_every_penalty_of_a_search_is_a_task(data):
    recorder = Recorder()
    model = SoftmaxAttentionRegressorCV([0.1, 1.0, 10.0], cv=2).set_callbacks(recorder).fit(*data)
    assert recorder.ended == ["penalty"] * 3 + ["fit"]
    np.testing.assert_array_equal(recorder.fitted[-1].predict(data[0]), model.predict(data[0]))


def test_scikit_learns_own_callbacks(data, capsys):
    pytest.importorskip("rich")
    monitor = callback.ScoringMonitor(scoring="r2")
    model = SoftmaxAttentionRegressor().set_callbacks(callback.ProgressBar(), monitor).fit(*data)
    assert "SoftmaxAttentionRegressor" in capsys.readouterr().out
    assert model.score(*data) > 0.0


def test_in_a_grid_search(data):
    pytest.importorskip("rich")
    search = GridSearchCV(SoftmaxAttentionRegressor(), {"alpha": [0.1, 1.0]}, cv=2)
    if hasattr(search, "set_callbacks"):
        search.set_callbacks(callback.ProgressBar()).fit(*data)
        assert search.best_score_ > 0.0
    search = GridSearchCV(SoftmaxAttentionRegressor().set_callbacks(Recorder()), {"alpha": [0.1]}, cv=2)
    search.fit(*data)
