"""The peer on MUSK: torchmil's ABMIL, attention over an MLP's features, as a scikit-learn classifier.

Layers, weight decay and the number of epochs are in the range of M. Ilse, J. Tomczak, M. Welling,
"Attention-based Deep Multiple Instance Learning", ICML 2018, arXiv:1802.04712: an MLP of 256, 128 and 64
units with dropout before attention of 64 units, and steps on one bag at a time.
"""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

WIDTHS = (256, 128, 64)
ATTENTION_WIDTH = 64


class ABMILClassifier(ClassifierMixin, BaseEstimator):
    """Attention-based deep multiple-instance learning, for bags in a RaggedArray and labels of two classes.

    Parameters
    ----------
    gated : bool, default=False
        Whether the attention is gated.
    optimizer : {"adam", "sgd"}, default="adam"
        "sgd" has a momentum of 0.9.
    learning_rate, weight_decay : float
    n_epochs : int, default=100
        Passes over the bags, in a new order each.
    dropout : float, default=0.5
        Share of units that are dropped after every layer of the MLP.
    random_state : int, default=0
        Drives the first weights, the order of the bags and what is dropped.
    """

    def __init__(
        self, gated=False, *, optimizer="adam", learning_rate=1e-4, weight_decay=5e-3, n_epochs=100,
        dropout=0.5, random_state=0,
    ):  # fmt: skip
        self.gated = gated
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.n_epochs = n_epochs
        self.dropout = dropout
        self.random_state = random_state

    def fit(self, X, y):
        """Train on one bag a step; X : RaggedArray of n bags, y : (n,) labels."""
        import torch

        torch.set_num_threads(1)  # a bag is too small for more
        torch.manual_seed(self.random_state)
        self.classes_, index = np.unique(y, return_inverse=True)
        labels = torch.from_numpy(index.astype(np.float32))[:, None]
        bags = _bags(torch, X)
        network = self._network(torch, X.n_features)
        optimizer = self._optimizer(torch, network)
        for _ in range(self.n_epochs):
            for i in torch.randperm(len(bags)).tolist():
                optimizer.zero_grad()
                _, losses = network.compute_loss(labels[i], bags[i])
                sum(losses.values()).backward()
                optimizer.step()
        self.network_ = network.eval()
        return self

    def decision_function(self, X):
        """Return the log odds of the second class, (n,)."""
        import torch

        check_is_fitted(self)
        with torch.no_grad():
            return np.array([self.network_(bag).item() for bag in _bags(torch, X)])

    def predict(self, X):
        """Return the more probable class of every bag, (n,)."""
        return self.classes_[(self.decision_function(X) > 0.0).astype(int)]

    def _network(self, torch, n_features):
        from torchmil.models import ABMIL

        layers = []
        for n_inputs, n_outputs in zip((n_features, *WIDTHS), WIDTHS, strict=False):
            layers += [torch.nn.Linear(n_inputs, n_outputs), torch.nn.ReLU(), torch.nn.Dropout(self.dropout)]
        features = torch.nn.Sequential(*layers)
        return ABMIL((n_features,), att_dim=ATTENTION_WIDTH, gated=self.gated, feat_ext=features)

    def _optimizer(self, torch, network):
        options = {"lr": self.learning_rate, "weight_decay": self.weight_decay, "fused": True}
        if self.optimizer == "adam":
            return torch.optim.Adam(network.parameters(), **options)
        return torch.optim.SGD(network.parameters(), momentum=0.9, **options)


def _bags(torch, X):
    """Return every bag as a batch of its own, (1, L, D)."""
    return [torch.from_numpy(np.array(bag, dtype=np.float32))[None] for bag in X]
