import numpy as np
import pytest

import manifusion


@pytest.fixture(scope="session")
def cloud():
    """300 points around two places on the sphere."""
    centres = np.repeat([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [200, 100], axis=0)
    return manifusion.Manifold("sphere:2").noise(centres, 0.05, seed=3)


@pytest.fixture(scope="session")
def places(cloud):
    """The same as latitudes and longitudes."""
    return manifusion.Manifold("sphere:2").to_form(cloud, "latlon")


@pytest.fixture(scope="session")
def kernel(cloud):
    return manifusion.KernelMixture("sphere:2").fit(cloud)
