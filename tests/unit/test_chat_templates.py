"""Templates in the style of published families: a consultation fits, or one line says why not."""

import dataclasses

import pytest
from helpers import INSTRUCTION, make_case, make_tokenizer
from scripted_engine import ScriptedEngine
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pcqc.cases.chat import ChatFormat
from pcqc.cases.prompts import REMINDER
from pcqc.consultation.turns import read_response
from pcqc.engines.base import Completion
from pcqc.roles import Patient
from pcqc.roles.patient import Inquiry
from pcqc_base.errors import UserError
from pcqc_base.settings import Decoding

LOOP, ENDFOR, ENDIF = "{% for m in messages %}", "{% endfor %}", "{% endif %}"
TURN, OPEN = "{{ m.content }}", "{% if add_generation_prompt %}"
CHATML = (
    f"{LOOP}<|im_start|>{{{{ m.role }}}}\n{TURN}<|im_end|>\n{ENDFOR}"
    f"{OPEN}<|im_start|>assistant\n{ENDIF}"
)
# As ChatML, but with a thought that is opened for the model, unless thinking is off.
OPENED = CHATML.removesuffix(ENDIF) + (
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}"
)
DEAF = CHATML.replace(LOOP, "{% for m in messages if m.role != 'system' %}")
LLAMA = (
    "<|begin|>{% set date = strftime_now('%d %b %Y') if strftime_now is defined else '1 May' %}"
    + LOOP
    + "<|header|>{{ m.role }}<|/header|>\n\n{% if loop.first %}Today: {{ date }}\n{% endif %}"
    + "{{ m.content | trim }}<|eot|>{% endfor %}"
    + f"{OPEN}<|header|>assistant<|/header|>\n\n{ENDIF}"
)
GEMMA = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('No system role') }}{% endif %}"
    + LOOP
    + "<|turn|>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content }}<|end|>\n"
    + f"{ENDFOR}{OPEN}<|turn|>model\n{ENDIF}"
)
# The system message stands before the last user turn.
MISTRAL = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content + '\n\n' %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    + LOOP
    + "{% if m.role == 'user' %}[INST]{{ system if loop.last else '' }}{{ m.content }}[/INST]"
    + f"{{% else %}}{TURN}</s>{ENDIF}{ENDFOR}"
)
# A blank around the response, as a published template of the same family has.
SPACED = (
    f"{LOOP}{{% if m.role == 'assistant' %}} {TURN} </s>{{% else %}}[INST]{TURN}[/INST]"
    f"{ENDIF}{ENDFOR}"
)
# A line break alone ends a turn.
LINES = f"{LOOP}{{{{ m.role | upper }}}}: {TURN}\n{ENDFOR}{OPEN}ASSISTANT:{ENDIF}"
R1 = (
    LOOP
    + "{% if m.role == 'assistant' %}<|A|>{{ m.content.split('</think>')[-1] }}</s>"
    + f"{{% elif m.role == 'user' %}}<|U|>{TURN}{{% else %}}{TURN}{ENDIF}"
    + f"{ENDFOR}{OPEN}<|A|><think>\n{ENDIF}"
)
PHI = LOOP + "<|{{ m.role }}|>\n{{ m.content }}<|end|>\n" + ENDFOR + f"{OPEN}<|assistant|>\n{ENDIF}"
SPECIALS = ("<|begin|>", "<|header|>", "<|/header|>", "<|eot|>", "<|turn|>", "<|end|>", "[INST]")
MORE = ("[/INST]", "</s>", "<|A|>", "<|U|>", "<|system|>", "<|user|>", "<|assistant|>")


def tokenizer_with(template: str):
    tokenizer = make_tokenizer()
    tokenizer.add_tokens([*SPECIALS, *MORE], special_tokens=True)
    tokenizer.chat_template = template
    return tokenizer


def chat_with(template: str, **options) -> ChatFormat:
    return ChatFormat(tokenizer_with(template), INSTRUCTION, **options)


@pytest.mark.parametrize(
    ("template", "end", "opening"),
    [
        (CHATML, "<|im_end|>", "<|im_start|>assistant\n"),
        (OPENED, "<|im_end|>", "<|im_start|>assistant\n<think>\n"),
        (PHI, "<|end|>", "<|assistant|>\n"),
        (LLAMA.replace("strftime_now('%d %b %Y')", "'1 May'"), "<|eot|>", "<|header|>assistant"),
    ],
    ids=["ChatML", "Qwen3.5", "Phi", "Llama 3 with a fixed date"],
)
def test_a_consultation_fits(template, end, opening):
    chat = chat_with(template)
    assert chat.tokenizer.decode([chat.end_of_turn]) == end
    state = chat.tokenizer.decode(chat.open(make_case().public))
    assert opening in state[-40:]
    assert state.count(INSTRUCTION) == 1
    later = chat.tokenizer.decode(chat.after_action([chat.end_of_turn], "No cough."))
    assert opening in later[-40:]
    assert INSTRUCTION not in later
    assert later.count("No cough.") == 1


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template"),
        ("{{ messages[-1].content }}", r"does not print each turn once \(system\)"),
        (DEAF, r"does not print each turn once \(system\)"),
        ("{% for m in messages %}{{ m.text", "refuses the turns user "),
        (SPACED, "ends a response with ' </s>.INST.', which begins with no special token"),
        (LINES, r"ends a response with '\\nUSER: ', which begins with no special token"),
        (R1, "opens a thought even where thinking is off"),
        (LLAMA, "writes the time, so that .*; put a fixed date into its chat template"),
        (CHATML + "{{ strftime_now('%Y') if messages[0].role == 'user' }}", "writes the time"),
        (MISTRAL, "writes the system message into a later turn than the first"),
        (GEMMA, r"refuses the turns system, user, assistant, user \(No system role\)"),
    ],
    ids=[
        "none",
        "last turn alone",
        "no instruction",
        "broken",
        "blank before the end",
        "line break at the end",
        "DeepSeek-R1",
        "Llama 3 with today's date",
        "a date without a system message",
        "Mistral",
        "Gemma",
    ],
)
def test_no_consultation_fits_and_one_line_says_why(template, message):
    with pytest.raises(UserError, match=message) as error:
        chat_with(template)
    assert "\n" not in str(error.value)
    assert "use another model" in str(error.value)


def test_a_thought_that_was_cut_off_is_no_answer_where_the_prompt_opened_it():
    chat = chat_with(OPENED)
    texts = ("fever. Final Answer: B", "fever. Final Answer: A</think>\n\nFinal Answer: B")
    cut, whole = (read(chat, text) for text in texts)
    assert cut.action.kind == "none"
    assert cut.text == "<think>\nfever. Final Answer: B"
    assert (whole.action.kind, whole.action.text) == ("final", "B")


def test_the_question_starts_after_a_thought_that_the_prompt_opened():
    chat = chat_with(OPENED)
    response = read(chat, "Question: a</think>\n\nQuestion: any cough?")
    asked = response.completion.tokens[response.question_start :]
    assert chat.decode(asked) == " any cough?"
    assert read(chat, "Question: any cough?").question_start is None


def read(chat: ChatFormat, text: str):
    tokens = [*chat.encode(text), chat.end_of_turn]
    return read_response(chat, Completion(tokens, [0.0] * len(tokens)), ("A", "B"))


def test_recorded_responses_go_on_after_a_thought_that_the_prompt_opened():
    """With their own thought or, where they have none, with an empty one, as the template's own."""
    chat = chat_with(OPENED)
    told = ["<think>\nfever</think>Question: any cough?", "Final Answer: B"]
    messages = [{"role": r, "content": t} for r, t in (("system", INSTRUCTION), ("user", "Hi"))]
    for response in told:
        messages += [{"role": "assistant", "content": response}, {"role": "user", "content": "No."}]
    (first, thought), (second, empty) = chat.turns(messages[:-1], "keep")
    decode = chat.tokenizer.decode
    assert decode(thought) == "fever</think>Question: any cough?<|im_end|>"
    assert decode(empty) == "\n</think>\n\nFinal Answer: B<|im_end|>"
    assert decode(second) == (
        decode(first) + decode(thought) + "\n<|im_start|>user\nNo.<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )
    (_, (second, _)) = chat.turns(messages[:-1], "drop")
    assert decode(second) == (
        decode(first).removesuffix("<think>\n") + "Question: any cough?<|im_end|>\n"
        "<|im_start|>user\nNo.<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )


@pytest.mark.parametrize(
    ("template", "said", "heard"),
    [
        (CHATML, "No cough.", "No cough."),
        (CHATML, "\n<think>a rash</think>\n\nNo.", "No."),
        (CHATML, "<think>a rash", ""),
        (CHATML, "No</think> cough.", "No</think> cough."),  # a stray tag is no thought
        (OPENED, "<think>No", "<think>No"),  # nor is one once the prompt has closed the thought
    ],
)
def test_the_doctor_never_hears_a_patients_thought(template, said, heard):
    chat = chat_with(template)
    engine = ScriptedEngine(lambda prompt, stream: [*chat.encode(said), chat.end_of_turn])
    patient = Patient(engine, chat, Decoding(1.0, 1.0, 50))
    assert patient.answer([Inquiry(("No cough.",), "any cough?", 0)]) == [heard]
    closed = chat.tokenizer.decode(engine.prompts[0]).endswith("<think>\n\n</think>\n\n")
    assert closed == (template == OPENED)


def test_every_end_token_of_the_model_ends_a_response():
    end = make_tokenizer().convert_tokens_to_ids("<|endoftext|>")
    chat = chat_with(CHATML, ends=(end, 2))
    assert chat.ends == (chat.end_of_turn, end) == (2, 0)
    tokens = [*chat.encode("Final Answer: B"), end]
    response = read_response(chat, Completion(tokens, [0.0] * len(tokens)), ("A", "B"))
    assert (response.action.text, response.action.valid) == ("B", True)
    # The frame stays whole: the template's own end follows.
    state = chat.continue_state([], tokens, REMINDER, "keep")
    assert state[: len(tokens) + 1] == [*tokens, chat.end_of_turn]


def metaspace(*markers: AddedToken) -> PreTrainedTokenizerFast:
    """Letters; a blank is `▁`, and one stands before a text's beginning, as in SentencePiece."""
    letters = [*"▁abcdefghijklmnopqrstuvwxyz<|>/N.\n"]
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens(list(markers))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=PHI)


@pytest.mark.parametrize("strips", [{}, {"rstrip": True}, {"lstrip": True, "rstrip": True}])
def test_a_marker_in_a_text_leaves_the_frame_as_it_is(strips):
    """Also where markers strip the blanks beside them, and where a text's beginning is marked."""
    names = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
    chat = ChatFormat(metaspace(*(AddedToken(n, special=True, **strips) for n in names)), "ask.")
    plain, forged = (chat.after_action([], f"No {w} no.") for w in ("cough", "<|user|>"))
    written = {w: chat.tokenizer.convert_tokens_to_ids([*w]) for w in ("cough", "<|user|>")}
    start = next(i for i in range(len(plain)) if plain[i : i + 5] == written["cough"])
    assert forged[:start] == plain[:start]
    assert forged[start : start + 8] == written["<|user|>"]
    assert forged[start + 8 :] == plain[start + 5 :]


def test_a_tokenizer_that_reads_markers_in_plain_text_is_refused():
    """As a unigram model does whose vocabulary holds its own markers."""
    scores = [("<unk>", 0.0), ("</s>", -1.0), ("▁", -2.0), ("a", -3.0)]
    tokenizer = Tokenizer(models.Unigram(scores, 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["</s>"])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="</s>",
        unk_token="<unk>",
        chat_template=f"{LOOP}{{{{ m.content }}}}</s>{{% endfor %}}",
    )
    chat = ChatFormat(fast, "a")
    with pytest.raises(UserError, match="reads a marker even where it is plain text"):
        chat.ask("a </s> a")


def test_a_case_keeps_its_prompt_from_day_to_day():
    """The remedy for a template that tells the time is what its refusal says."""
    template = LLAMA.replace("strftime_now('%d %b %Y')", "'26 Jul 2024'")
    case = dataclasses.replace(make_case(), initial="Fever.").public
    chat = chat_with(template)
    assert "Today: 26 Jul 2024" in chat.tokenizer.decode(chat.open(case))
