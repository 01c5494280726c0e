"""Gymnasium's names of the clinic: `Clinic-v2` in words, `ClinicDiscrete-v2` in numbers.

`import clinic_env` gives Gymnasium these names where it is installed; no other module needs it.
"""

from importlib.util import find_spec

GYMNASIUM_NAMES = ("Clinic-v2", "ClinicDiscrete-v2")

if find_spec("gymnasium"):
    from gymnasium import register

    WORDS, NUMBERS = GYMNASIUM_NAMES
    register(WORDS, "clinic_env.v2.gym:TextClinic")
    register(
        NUMBERS,
        "clinic_env.v2.gym:DiscreteClinic",
        vector_entry_point="clinic_env.v2.gym:VectorClinic",
    )
