"""The inputs on which the losses of the two exercises are compared with the right ones."""

import math

from .exercises import Checks, probe

DAPO_RHO = [[0.5, 1.13, 1.26], [0.62, 4.0, 1.47], [1.6], [0.77, 1.24], [1.31, 0.67], [1.06]]
ADV = [1.0, -2.0, 0.5, -0.3, 1.4, -1.1]
DAPO = {
    "three groups of two": probe(DAPO_RHO, ADV, G=2),
    "two groups of three": probe(DAPO_RHO, ADV, (0.15, 0.4), G=3),
    "one group": probe(DAPO_RHO, ADV, (0.3, 0.1), G=6, more=1),
    "with beta": probe(DAPO_RHO, ADV, beta=0.5, G=3),
    "as many rows as positions": probe([[1.0, 1.3], [1.1]], [1.0, -3.0]),
    "wide": probe(DAPO_RHO, [-2.5, 1.5, -1.0, 0.4, 2.0, -0.6], (0.45, 0.9), G=2),
    "a row without advantage": probe(DAPO_RHO, [0.0, 1.0, -1.0, 0.0, 0.5, 0.0], G=3),
    "still the old policy": probe([[1.0] * 3, [1.0] * 4, [1.0], [1.0]], [1.0, -1.0, 0.5, -0.5]),
    "every ratio below 1": probe([[0.6], [0.9, 0.7]], [1.5, -0.5]),
    "far from the old policy": probe([[math.exp(9), math.exp(-9)], [1.0]], [-1.0, 1.0]),
}

GSPO_RHO = [[0.5, 1.13, 1.26], [0.62, 4.0, 1.47], [1.6], [0.77, 1.24], [1.31, 0.67], [1.07]]
FEW = [[1.0, 1.3], [0.7]]
GSPO = {
    "wide": probe(GSPO_RHO, ADV),
    "narrow": probe(GSPO_RHO, ADV, (0.03, 0.05)),
    "the other signs": probe(GSPO_RHO, [-2.5, 1.5, -1.0, 0.4, 2.0, 0.6], (0.1, 0.25), more=1),
    "with beta": probe(GSPO_RHO, ADV, (0.05, 0.2), beta=0.5),
    "as many rows as positions": probe(FEW, [1.0, -3.0], (0.2, 0.1)),
    "a row without advantage": probe(GSPO_RHO, [0.0, 1.0, -1.0, 0.0, 0.5, 0.0], (0.05, 0.06)),
    "still the old policy": probe([[1.0] * 3, [1.0], [1.0]], [1.0, -1.0, 0.5]),
    "far from the old policy": probe([[math.exp(9), math.exp(5)], [math.exp(-4)], [0.02]],
                                     [-1.0, 1.0, -2.0]),
    "the paper's range": probe([[1.0002, 1.00051], [0.9995, 1.0001], [1.0006]], [1.0, -1.0, -2.0],
                               (3e-4, 4e-4)),
}

CHECKS = {1: Checks(1, DAPO), 2: Checks(2, GSPO)}
