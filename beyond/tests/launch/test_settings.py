"""slurm.sbatch and k8s.yaml: they parse, their commands are ours, and their numbers agree."""

import re
import shlex
import shutil
import subprocess

import pytest

from beyond.launch import tiny
from lab15_run import TOP

yaml = pytest.importorskip("yaml", reason="pip install -r beyond/requirements.txt")
SBATCH, K8S = TOP / "beyond" / "launch" / "slurm.sbatch", TOP / "beyond" / "launch" / "k8s.yaml"
OPTION = re.compile(r"^#SBATCH --([\w-]+)(?:=(\S+))?", re.MULTILINE)


def sbatch():
    """Return (the text, its options, the words of the command with Slurm's variables filled in)."""
    text = SBATCH.read_text(encoding="utf-8")
    options = dict(OPTION.findall(text))
    values = {"SLURM_JOB_NUM_NODES": options["nodes"], "HOST": "node1", "SLURM_JOB_ID": "1",
              "SLURM_GPUS_PER_NODE": options["gpus-per-node"], "MODEL": "model", "RUN": "run",
              "DATA": "train.jsonl"}
    line = re.search(r"^srun (?:.*\\\n)+.*$", text, re.M)[0].replace("\\\n", " ")
    return text, options, shlex.split(re.sub(r"\$(\w+)", lambda m: values[m[1]], line))


def k8s():
    """Return (Service, Job, container) of k8s.yaml."""
    service, job = yaml.safe_load_all(K8S.read_text(encoding="utf-8"))
    [container] = job["spec"]["template"]["spec"]["containers"]
    return service, job, container


def split(words):
    """Return (torchrun's flags, module, the module's flags) of a command."""
    at = words.index("-m")
    run = words[words.index("torchrun") + 1 : at] if "torchrun" in words else words[:at]
    return dict(zip(run[::2], run[1::2])), words[at + 1], words[at + 2 :]


def assert_ours(words, nodes, gpus):
    """Fail unless torchrun and we take the command, and each process gets a prompt."""
    from torch.distributed.run import get_args_parser

    run, module, ours = split(words)
    given = get_args_parser().parse_args([*words[words.index("torchrun") + 1 :]])
    assert given.nnodes == run["--nnodes"] == str(nodes)
    assert given.nproc_per_node == run["--nproc-per-node"] == str(gpus)
    assert given.rdzv_backend == "c10d" and given.max_restarts > 0
    assert module == "beyond.train_hf"
    train_hf = pytest.importorskip("beyond.train_hf")
    flags = train_hf.arguments(ours)
    cfg = train_hf.from_flags(flags)
    assert flags.resume and cfg.device == "cuda" and cfg.parallel == "fsdp" and cfg.save_steps
    assert cfg.prompts_per_step >= nodes * gpus
    assert (TOP / flags.lab).is_file()


def test_bash_reads_the_sbatch_file():
    if not (bash := shutil.which("bash")):
        pytest.skip("no bash")
    checked = subprocess.run([bash, "-n", str(SBATCH)], capture_output=True, encoding="utf-8")
    assert checked.returncode == 0 and not checked.stderr


def test_the_sbatch_command_is_ours_and_its_numbers_agree():
    text, options, words = sbatch()
    nodes, gpus = int(options["nodes"]), int(options["gpus-per-node"])
    assert_ours(words, nodes, gpus)
    assert options["ntasks-per-node"] == "1"  # torchrun starts the rest
    threads = int(re.search(r"OMP_NUM_THREADS=(\d+)", text)[1])
    assert threads * gpus == int(options["cpus-per-task"])
    first_command = min(m.start() for m in re.finditer(r"^[^#\n]", text, re.M))
    assert text.rfind("#SBATCH") < first_command  # what comes later, Slurm does not read


def test_the_job_command_is_ours_and_its_numbers_agree():
    _, job, container = k8s()
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    limits = container["resources"]["limits"]
    gpus = limits["nvidia.com/gpu"]
    assert_ours([*container["command"], *container["args"]], spec["completions"], gpus)
    env = {e["name"]: e["value"] for e in container["env"]}
    assert int(env["OMP_NUM_THREADS"]) * gpus == int(limits["cpu"])
    mounts = [m["mountPath"] for m in container["volumeMounts"]]
    _, _, ours = split([*container["command"], *container["args"]])
    for flag in ("--output-dir", "--model", "--data"):  # on the volume that all pods see
        assert ours[ours.index(flag) + 1].startswith(f"{mounts[0]}/")


def test_the_pods_find_each_other():
    service, job, container = k8s()
    name, pod = job["metadata"]["name"], job["spec"]["template"]
    run, _, _ = split([*container["command"], *container["args"]])
    host, port = run["--rdzv-endpoint"].split(":")
    assert host == f"{name}-0.{service['metadata']['name']}"
    assert int(port) == container["ports"][0]["containerPort"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None"
    volumes = {v["name"] for v in pod["spec"]["volumes"]}
    assert {m["name"] for m in container["volumeMounts"]} == volumes


def test_both_keep_restarts_apart_and_say_that_they_were_not_run():
    for path in (SBATCH, K8S):
        text = path.read_text(encoding="utf-8")
        assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" in text
        assert "has not been run on a cluster" in text


def test_the_tinylm_line_of_the_sbatch_file_is_ours(monkeypatch):
    monkeypatch.setattr(tiny, "check", lambda flags: None)  # there may be no GPU here
    line = re.search(r"-m beyond\.launch\.tiny (.*)", SBATCH.read_text(encoding="utf-8"))[1]
    flags = tiny.parse(None, shlex.split(line))
    assert flags.resume and flags.device == "cuda"
