"""Losses, optimiser steps and saved states; no module knows a consultation or a method."""
