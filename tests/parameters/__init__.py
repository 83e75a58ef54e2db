"""Tests of the parameters room."""
