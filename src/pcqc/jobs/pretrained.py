"""Pretrained models of a real study, put where its jobs look for them."""

from pcqc.errors import UserError
from pcqc.models.pretrained import download, install
from pcqc.study import Study
from pcqc.study.job_outputs import job_output


def run_models(study: Study, fetch: bool = False) -> None:
    """Install every pretrained model of the study, each once.

    Args:
        study: a study of real cases.
        fetch: download what comes from Hugging Face and is not on this machine yet.
    """
    if not study.pretrained:
        raise UserError(
            f"study '{study.name}' trains its base model from scratch: `pcqc pretrain {study.name}`"
        )
    for folder, source in study.pretrained.items():
        result = job_output(study, "models", model=folder)
        if fetch and source.revision:
            download(source)
        if not result.stands():
            result.begin()
            install(source, result.path)
            result.finish([f"{folder}/manifest.json"])
