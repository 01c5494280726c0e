"""The synthetic clinic: its cases and models. World and exact posterior: `packages/clinic_env`."""
