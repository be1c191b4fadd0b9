"""Flags in HF's spelling, and what the names of other libraries are called here."""

import dataclasses
import re
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import GRPOTrainer, foreign, services_run, sft, train_hf
from beyond.config import SPECS, GRPOConfig
from beyond.settings import kinds_of

README = Path(__file__).resolve().parents[2] / "README.md"
ELSEWHERE = {"model", "data", "eval_data", "max_samples", "reward", "resume"}  # flags of train_hf
BOOLS = sorted(name for name, spec in SPECS.items() if bool in kinds_of(spec))


def config(*args):
    return train_hf.settings_of(train_hf.arguments([*args, "--data", "gsm8k_mock"]))


def refused(capsys, command, *args):
    """Return the single line with which a command refuses its arguments."""
    with pytest.raises(SystemExit) as error:
        command(list(args))
    told = capsys.readouterr()
    assert error.value.code == 2 and told.out == "" and told.err.count("\n") == 1
    return told.err


def test_every_flag_is_taken_with_dashes_and_with_underscores():
    values = {int: "3", float: "3", str: "x"}
    for name, spec in SPECS.items():
        value = (spec.metadata["choices"] or [values.get(kinds_of(spec)[0])])[-1]
        if name in BOOLS:
            continue
        dashed = name.replace("_", "-")
        found = [vars(train_hf.arguments(args)) | {"command": ""} for args in
                 ([f"--{name}", value], [f"--{dashed}", value], [f"--{name}={value}"])]
        assert found[0] == found[1] == found[2] and found[0][name] == value


@pytest.mark.parametrize("name", BOOLS)
def test_a_switch_is_taken_alone_and_with_a_value(name):
    dashed = name.replace("_", "-")
    on = [[f"--{name}"], [f"--{dashed}", "true"], [f"--{name}=True"], [f"--{name}", "1"]]
    off = [[f"--no-{dashed}"], [f"--no_{name}"], [f"--{name}", "false"], [f"--{name}=no"]]
    assert all(getattr(config(*args), name) is True for args in on)
    assert all(getattr(config(*args), name) is False for args in off)
    assert getattr(config(f"--{name}", "group_size=5"), name) is True  # no value of its own


def test_overrides_may_stand_between_flags():
    cfg = config("kl_beta=0.5", "--bf16", "stop=a=b", "--group-size", "4", "seed=3")
    assert (cfg.kl_beta, cfg.bf16, cfg.stop, cfg.group_size, cfg.seed) == (0.5, True, "a=b", 4, 3)


@pytest.mark.parametrize(("args", "said"), [
    (["--num_generations", "8"], "num_generations: here it is group_size; type --group-size 8"),
    (["--num-generations=8"], "type --group-size 8"),
    (["--shuffle_dataset", "false"], "type --no-shuffle"), (["--use_vllm"], "--vllm URL"),
    (["--per_device_train_batch_size", "8"], "prompts_per_step = per_device_train_batch_size x"),
    (["--dataloader_num_workers", "2"], "nothing here does what it does in TRL or HF"),
    (["--lerning-rate", "1"], "unknown flag --lerning-rate; did you mean --learning-rate?"),
    (["--shuffle=perhaps"], "give true or false"), (["--group-size"], "expected one argument")])
@pytest.mark.parametrize("command", [train_hf.arguments, sft.main, services_run.arguments])
def test_an_unknown_flag_is_one_line_with_the_name_that_would_work(capsys, command, args, said):
    assert said in refused(capsys, command, *args)


def test_the_same_is_said_of_a_file_of_overrides_and_of_the_class(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("num_generations: 8\n", encoding="utf-8")
    for args in (["--config", str(path)], ["num_generations=8"], ["trl.num_generations=8"]):
        with pytest.raises(ValueError, match="num_generations: here it is group_size; type --gr"):
            config(*args)
    with pytest.raises(TypeError, match="num_generations: here it is group_size"):
        GRPOConfig(num_generations=8)
    with pytest.raises(TypeError, match="did you mean group_size"):
        GRPOConfig(grupsize=8)


def test_what_the_table_calls_ours_is_there_and_no_name_is_ours_and_theirs():
    assert {n.ours for n in foreign.TABLE} - {""} <= {*SPECS, *ELSEWHERE}
    assert len(foreign.NAMES) == len(foreign.TABLE)
    assert not foreign.NAMES.keys() & SPECS.keys() and not foreign.OTHERS & SPECS.keys()
    assert not foreign.OTHERS & foreign.NAMES.keys()
    assert {n.ours for n in foreign.TABLE if not n.how and n.ours in BOOLS} <= {*foreign.SWITCHES}
    assert set(foreign.SWITCHES) == set(BOOLS)
    for name in foreign.TABLE:  # what is typed is a flag, and is taken
        for flag in re.findall(r"--[a-z][\w-]+", foreign.answer(name.theirs, "1") or ""):
            known = {*train_hf.arguments([]).__dict__, "nproc_per_node"}
            known |= {*vars(services_run.arguments([]))}
            assert flag[2:].removeprefix("no-").replace("-", "_") in known, (name, flag)


def test_every_field_of_the_installed_trl_is_answered():
    trl = pytest.importorskip("trl", reason="pip install -r beyond/requirements-trl.txt")
    from trl.scripts.grpo import GRPOScriptArguments

    theirs = {field.name for cls in (trl.GRPOConfig, trl.ModelConfig, GRPOScriptArguments)
              for field in dataclasses.fields(cls)}
    assert len(theirs) > 200
    assert sorted(n for n in theirs - SPECS.keys() if not foreign.answer(n)) == []


def test_the_readme_has_the_table():
    assert foreign.table() in README.read_text(encoding="utf-8")


# ---------------------------------------------------------------- arguments of a trainer


@pytest.mark.parametrize(("given", "said"), [
    ({"reward_funcs": []}, "here it is reward_fn"), ({"args": None}, "here it is config"),
    ({"processing_class": None}, "here it is tokenizer"),
    ({"train_dataset": []}, "the argument of train"),
    ({"data_collator": None}, "has no argument 'data_collator'; it has model, tokenizer")])
def test_an_argument_of_trls_trainer_is_one_line(given, said):
    with pytest.raises(TypeError, match=said):
        GRPOTrainer(None, None, **given)


def test_a_callback_of_hf_is_refused_before_anything_is_loaded():
    from transformers import EarlyStoppingCallback, TrainerCallback

    class Mine(TrainerCallback):
        pass

    for callback in (EarlyStoppingCallback(), Mine(), Mine):
        with pytest.raises(ValueError, match="is one of HF's Trainer.*on_step_end") as error:
            GRPOTrainer(None, None, callbacks=[callback])
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="is a class; give an object: Plain\\(\\)"):
        GRPOTrainer(None, None, callbacks=[type("Plain", (), {})])
