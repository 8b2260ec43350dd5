"""Geometry on arrays: ``Manifold("sphere:2")`` and what there is besides."""

from ._native import FORMS, MANIFOLDS, Manifold

__all__ = ["FORMS", "MANIFOLDS", "Manifold"]
