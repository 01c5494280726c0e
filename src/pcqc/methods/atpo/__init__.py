"""ATPO (Cao et al., arXiv 2603.02216) in its U1+U2 configuration; `atpo.py` is its first page."""

from pcqc.methods.atpo.atpo import Atpo

__all__ = ["Atpo"]
