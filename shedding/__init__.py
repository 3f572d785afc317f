"""Load shedding: which events, partial matches or tuples to drop when there is too much of everything.

A library of its own: arrays in, arrays out. It knows numpy, numba and scikit-learn, but not the application, no clock and no unseeded chance.
Every algorithm is one file, named as in its paper, behind the small interface of `shedding.interface`; `shedding.registry` lists them all.
"""
