"""Training methods, one module each: settings, samples, credits, what is trained on and logged.

A method is named by its module: `method: pcqc` in `config/methods.yaml` is `Pcqc` of `pcqc.py`.
Read `base.py` first, for what every method has, then `grpo.py` and `pcqc.py`. No module imports
torch before a run begins: settings, plans and tables ask the same classes.
"""
