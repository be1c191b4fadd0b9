"""The numbers of the page are those of Python: in node, and in the built page in a browser."""

import functools
import random

import pytest
import torch

import tinylm
from beyond.losses import LOSSES
from beyond.losses.advantages import mean_only
from instructor.tests.notebooks.explore import engines
from instructor.tests.notebooks.explore.engines import packed
from notebooks.explore import build, weights
from tests.labfile import ROOT, load_lab

BOUND = 1e-5
lab = load_lab(ROOT / "solutions" / "lab15_grpo.py", tinylm, limit=600)
# The page's name of a loss: that of beyond/losses, and what the page sets.
ZOO = {"reinforce": ("reinforce", {}), "ppo": ("reinforce_pp", {}), "grpo": ("grpo", {}),
       "dr_grpo": ("dr_grpo", {"L": 4}), "dapo": ("dapo", {}), "gspo": ("gspo", {}),
       "cispo": ("cispo", {})}
# Of no scene and no example: held out from everything that was tried while the page was written.
SUMS = ["83+9=", "14+71=", "6+6=", "27+27=", "40+59=", "8+0=", "33+19=", "52+45=", "90+4=", "66+1="]


@pytest.fixture(scope="module", params=["node", "page"])
def js(request, tmp_path_factory):
    """A program that runs the page's JavaScript."""
    if request.param == "node":
        yield engines.node()
    else:
        yield from engines.opened(tmp_path_factory.mktemp("a page"))


@pytest.fixture(scope="module")
def page():
    """The recorded data, as the build reads it."""
    return build.read_page()


@functools.cache
def sft():
    """Return the weights of the SFT model, float32."""
    return weights.flat(tinylm.load_or_train_sft(ROOT / "tinylm_sft.pt"))


def out_of(prompts, responses):
    """Return the dict of tinylm.sample for prompts and responses as lists of ids."""
    T = max(map(len, responses))
    tokens = torch.tensor([row + [tinylm.PAD] * (T - len(row)) for row in responses])
    ids = torch.cat([tinylm.encode(prompts), tokens], 1)
    return {"ids": ids, "prompt_len": ids.shape[1] - T, "mask": (tokens != tinylm.PAD).float()}


def apart(a, b):
    """Return the largest distance between the entries of two nested lists or tensors."""
    a, b = (torch.as_tensor(x, dtype=torch.float64).flatten() for x in (a, b))
    assert a.shape == b.shape
    return float((a - b).abs().max())


def relative(a, b):
    """Return the length of a - b relative to that of b."""
    a, b = (torch.as_tensor(x, dtype=torch.float64).flatten() for x in (a, b))
    return float((a - b).norm() / b.norm())


# ============================================================== the model

SCORE = """
const out = explore.tinylm.makeOut(given.prompts, given.responses);
const model = explore.tinylm.makeModel(floats(given.weights));
const { logp, entropy } = explore.tinylm.score(model, out);
return { logp: [...logp], mask: [...out.mask], entropy: [...entropy],
         mean: explore.tinylm.tokenEntropy(model, out) };
"""
UNPACKED = """
const models = await explore.weights.unpackModels(given.packed, given.exponents);
const out = explore.tinylm.makeOut(given.prompts, given.responses);
return given.which.map((i) => [...explore.tinylm.sequenceLogprobs(models[i], out)]);
"""


def test_weights_have_the_names_and_shapes_of_torch(js):
    found = js.run("return explore.tinylm.SHAPES;")
    state = tinylm.TinyLM(**tinylm.MODEL).state_dict()
    assert found == [[name, list(value.shape)] for name, value in state.items()]
    assert js.run("return [explore.tinylm.CHARS, explore.tinylm.V, explore.tinylm.CONTEXT];") == [
        tinylm.CHARS, tinylm.V, tinylm.MODEL["context"]]


def test_logprobs_of_float32_weights(js, page):
    held = page["training"]["held_out"]
    out = out_of(held["prompts"], held["responses"])
    model = weights.model_of(sft())
    with torch.no_grad():
        logp = tinylm.sequence_logprobs(model, out)
        entropy = lab.token_entropy(model, out)
    found = js.run(SCORE, weights=packed(sft()), prompts=held["prompts"],
                   responses=held["responses"])
    assert len(held["prompts"]) == 200
    assert apart(found["logp"], logp) < BOUND
    assert apart(found["mask"], out["mask"]) == 0
    assert abs(found["mean"] - entropy) < BOUND


def test_logprobs_of_the_stored_models(js, page):
    """Against float32 as recorded when they were trained, and against torch with their weights."""
    held, steps = page["training"]["held_out"], page["iterations"]
    which = [steps.index(int(i)) for i in held["logp"]]
    found = js.run(UNPACKED, packed=engines.base64.b64encode(page["packed"]).decode(),
                   exponents=page["training"]["exponents"],
                   prompts=held["prompts"], responses=held["responses"], which=which)
    out = out_of(held["prompts"], held["responses"])
    assert len(found) == 3
    for i, logp, recorded in zip(which, found, held["logp"].values()):
        logp = torch.tensor(logp).view(out["mask"].shape)
        with torch.no_grad():
            same = tinylm.sequence_logprobs(weights.model_of(page["models"][i]), out)
        assert apart(logp, same) < BOUND
        right = torch.zeros_like(logp)
        right[out["mask"] > 0] = torch.tensor([x for row in recorded for x in row])
        assert apart(logp, right) < 5e-3
        assert float((logp - right).abs().sum() / out["mask"].sum()) < 5e-4


def test_forward_with_and_without_a_cache_agree(js):
    found = js.run("""
        const { makeModel, answers, responseProbability } = explore.tinylm;
        const model = makeModel(floats(given.weights));
        return given.prompts.map((prompt) => {
          const { numbers, other } = answers(model, prompt);
          const one = [...numbers].map((p, n) => responseProbability(model, prompt, `${n}`));
          return [[...numbers], one, other];
        });""", weights=packed(sft()), prompts=SUMS[:3])
    for numbers, one, other in found:
        assert apart(numbers, one) < 1e-6
        assert abs(sum(numbers) + other - 1) < 1e-6


def test_a_prompt_that_cannot_be_is_refused(js):
    found = js.run("""
        return ["37+4a=", ""].map((prompt) => {
          try { explore.tinylm.encode(prompt); } catch (error) { return error.message; }
        }).concat(["37+48=", "37", "99+9=", "07+1="].map(explore.tinylm.promptProblem));""")
    assert "unknown character 'a'" in found[0] and "is empty" in found[1]
    assert found[2] == "" and all(found[3:])


# ============================================================== sampling


def exact(model, prompt):
    """Return the probability of every number below 100 as the response, by torch."""
    responses = [[tinylm.CHARS.index(c) for c in str(n)] + [tinylm.END] for n in range(100)]
    with torch.no_grad():
        logp = tinylm.sequence_logprobs(model, out_of([prompt] * 100, responses))
    return logp.double().sum(1).exp()


def test_answers_come_as_often_as_they_should(js):
    """Chi-square of 2000 samples of each of ten prompts; the seeds are fixed, so this is too."""
    model, n = weights.model_of(sft()), 2000
    found = js.run("""
        const { makeModel, sample, answers } = explore.tinylm;
        const model = makeModel(floats(given.weights));
        return given.prompts.map((prompt, i) => {
          const random = explore.random.makeRandom(i + 1), counts = Array(101).fill(0);
          const { texts } = sample(model, Array(given.n).fill(prompt), { random });
          for (const text of texts) {
            counts[`${Number(text)}` === text && text < 100 ? Number(text) : 100] += 1;
          }
          return [counts, [...answers(model, prompt).numbers]];
        });""", weights=packed(sft()), prompts=SUMS, n=n)
    for prompt, (counts, numbers) in zip(SUMS, found):
        right = exact(model, prompt)
        assert apart(numbers, right) < BOUND
        expected = [*(n * right).tolist(), n * max(0.0, 1 - float(right.sum()))]
        often = [(c, e) for c, e in zip(counts, expected) if e >= 5]
        rare = [(c, e) for c, e in zip(counts, expected) if e < 5]
        pairs = [*often, (sum(c for c, _ in rare), sum(e for _, e in rare))]
        square = sum((c - e) ** 2 / e for c, e in pairs if e > 0)
        half = torch.tensor([len(pairs) - 1, square], dtype=torch.float64) / 2
        p = float(torch.special.gammaincc(*half))  # of a chi-square at least this large
        assert p > 1e-3, (prompt, square, len(pairs))


def test_same_seed_same_samples_and_temperature_counts(js):
    found = js.run("""
        const { makeModel, sample } = explore.tinylm;
        const model = makeModel(floats(given.weights)), prompts = Array(40).fill("33+19=");
        const drawn = (seed, temperature) =>
          sample(model, prompts, { temperature, random: explore.random.makeRandom(seed) }).texts;
        return [drawn(1, 1), drawn(1, 1), drawn(2, 1), drawn(1, 0.01), drawn(1, 3),
                sample(model, prompts, { greedy: true }).texts];""", weights=packed(sft()))
    one, again, other, cold, hot, greedy = found
    assert one == again and one != other
    model = weights.model_of(sft())
    best = tinylm.decode_responses(tinylm.sample(model, ["33+19="], greedy=True))[0]
    assert set(greedy) == {best} and set(cold) == {best} and len(set(hot)) > len(set(one))


# ============================================================== advantages and losses


def batches():
    """Yield 20 batches of log-probs, of every length, with ratios far beyond the clip."""
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        G, P, T = 2 + seed % 7, 1 + seed % 3, 2 + seed % 4
        B = G * P
        lengths = torch.randint(1, T + 1, (B, 1), generator=rng)
        mask = (torch.arange(T) < lengths).float()
        old = torch.randn(B, T, generator=rng).abs().neg() * mask
        logp = (old + 0.3 * torch.randn(B, T, generator=rng)) * mask
        ref = (old + 0.5 * torch.randn(B, T, generator=rng)) * mask
        rewards = torch.randint(0, 2, (B,), generator=rng).float()
        if seed % 5 == 0:
            rewards[:G] = 1.0  # a group without signal
        yield {"G": G, "B": B, "T": T, "logp": logp, "old": old, "ref": ref, "mask": mask,
               "rewards": rewards}


def handed(batch, **more):
    """Return a batch as it is handed to JavaScript."""
    tensors = {k: packed(v.flatten()) for k, v in batch.items() if isinstance(v, torch.Tensor)}
    return batch | tensors | more


BATCH = """
const batchOf = (b) => ({ B: b.B, T: b.T, ...Object.fromEntries(
  ["logp", "old", "ref", "mask", "adv"].map((key) => [key, floats(b[key])])) });
const plain = (x) => ArrayBuffer.isView(x) ? [...x] : x;
const all = (x) => Object.fromEntries(Object.entries(x).map(([key, value]) => [key, plain(value)]));
"""


def test_advantages(js):
    for scale in (True, False):
        given = [handed(batch) for batch in batches()]
        found = js.run("return given.batches.map((b) => [...explore.grpo.groupAdvantages("
                       "floats(b.rewards), b.G, given.scale)]);", batches=given, scale=scale)
        for batch, adv in zip(batches(), found):
            right = lab.group_advantages(batch["rewards"], batch["G"], scale)
            assert apart(adv, right) < BOUND


def test_groups_without_signal(js):
    found = js.run("return explore.grpo.groupParts([1, 1, 0, 1, 0, 0], 2);")
    assert [group["silent"] for group in found] == [True, False, True]
    assert found[1]["mean"] == 0.5 and found[1]["std"] == 0.5 and found[1]["centred"] == [-0.5, 0.5]


def test_the_loss_and_its_parts(js):
    given = []
    for batch in batches():
        adv = lab.group_advantages(batch["rewards"], batch["G"])
        given.append(handed(batch | {"adv": adv}))
    found = js.run(BATCH + """return given.batches.map((b) => {
        const x = explore.grpo.grpoLoss(batchOf(b), { clipEps: 0.2, beta: 0.04 });
        const k3 = [...explore.grpo.k3Kl(floats(b.logp), floats(b.ref))];
        return { ...x, tokens: all(x.tokens), k3 };
        });""", batches=given)
    bound = 0
    for batch, got in zip(batches(), found):
        logp, mask = batch["logp"].clone().requires_grad_(), batch["mask"]
        adv = lab.group_advantages(batch["rewards"], batch["G"])
        loss, stats = lab.grpo_loss(logp, batch["old"], batch["ref"], adv, mask)
        loss.backward()
        A, rho = adv.unsqueeze(1), torch.exp(batch["logp"] - batch["old"])
        clipped = rho.clamp(0.8, 1.2) * A
        k3 = lab.k3_kl(batch["logp"], batch["ref"])
        term = torch.min(rho * A, clipped)
        obj = (term - 0.04 * k3) * mask
        lengths = mask.sum(1, keepdim=True)
        tokens = got["tokens"]
        assert apart(got["loss"], loss.detach()) < BOUND
        assert apart([got["stats"][key] for key in stats], list(stats.values())) < BOUND
        assert apart(got["k3"], k3) < BOUND
        right = {"A": A * mask, "rho": rho * mask, "unclipped": rho * A * mask,
                 "clipped": clipped * mask, "term": term * mask, "k3": k3 * mask, "obj": obj,
                 "binds": (clipped < rho * A) * mask, "dLogp": logp.grad,
                 "share": -obj / lengths / len(mask)}
        for name, value in right.items():
            assert apart(tokens[name], value) < BOUND, name
        assert abs(sum(tokens["share"]) - got["loss"]) < BOUND
        assert apart(got["rows"]["mean"], obj.sum(1) / lengths[:, 0]) < BOUND
        assert apart(got["tokenMean"], -obj.sum() / mask.sum()) < BOUND
        bound += sum(tokens["binds"])
    assert bound > 20  # the clip was at work


@pytest.mark.parametrize("name", ZOO)
def test_the_losses_of_beyond(js, name):
    right_name, extras = ZOO[name]
    advantages = mean_only if name == "dr_grpo" else lab.group_advantages
    sets = [batch | {"adv": advantages(batch["rewards"], batch["G"])} for batch in batches()]
    found = js.run(BATCH + """
        const { lossOf, LOSSES } = explore.losses;
        const results = given.batches.map((b) => all(lossOf(given.name, batchOf(b))));
        return [LOSSES[given.name], results];""", batches=[handed(x) for x in sets], name=name)
    about, results = found
    assert about["adv"] == ("mean_only" if name == "dr_grpo" else "group")
    assert about["beyond"] == right_name
    assert js.run("return explore.losses.NAMES;") == list(ZOO)
    for x, got in zip(sets, results):
        logp = x["logp"].clone().requires_grad_()
        loss, _ = LOSSES[right_name](logp, x["old"], x["ref"], x["adv"], x["mask"], **extras)
        loss.backward()
        assert apart(got["loss"], loss.detach()) < BOUND
        assert apart(got["dLogp"], logp.grad) < BOUND
        weighted = sum(w * t for w, t in zip(got["weight"], got["terms"]))
        assert abs(weighted - got["loss"]) < BOUND


# ============================================================== learning

STEPS = """
const { makeModel, copyModel, score, gradient } = explore.tinylm;
const { makeRandom } = explore.random;
const policy = makeModel(floats(given.policy)), ref = makeModel(floats(given.ref));
const group = explore.step.sampleGroup(policy, [given.prompt], 8, 1, makeRandom(given.seed));
const adam = explore.adam.makeAdam(policy.flat.length);
const before = score(policy, group.out);
const adv = explore.grpo.groupAdvantages(group.rewards, 8);
const { B, T, mask } = group.out;
const refLogp = score(ref, group.out).logp;
const far = { B, T, mask, adv, logp: before.logp, old: before.logp, ref: refLogp };
const grads = gradient(policy, before, explore.grpo.grpoLoss(far).tokens.dLogp);
const cfg = { ...explore.step.CONFIG, innerSteps: 1 };
const one = explore.step.update(policy, ref, adam, group, cfg);
const afterOne = [...policy.flat];
const more = explore.step.update(policy, ref, adam, group, { ...cfg, innerSteps: 4 });
return { responses: group.out.responses, rewards: [...group.rewards], grads: [...grads], afterOne,
         afterFive: [...policy.flat], logp: [...score(policy, group.out).logp],
         norms: [one, more].flatMap((x) => x.inner.map((step) => step.gradNorm)),
         stats: [one.stats, more.stats] };
"""


@pytest.mark.parametrize("prompt", SUMS)
def test_gradient_and_weights_after_one_and_five_steps(js, page, prompt):
    """A step, and four more on the same samples, whose old policy is the one after the first."""
    start = page["models"][page["iterations"].index(20)]
    found = js.run(STEPS, policy=packed(start), ref=packed(sft()), prompt=prompt,
                   seed=SUMS.index(prompt))
    policy, ref = weights.model_of(start), weights.model_of(sft())
    out, rewards = out_of([prompt] * 8, found["responses"]), torch.tensor(found["rewards"]) * 1.0
    a, b = map(int, prompt[:-1].split("+"))
    texts = tinylm.decode_responses(out)
    assert found["rewards"] == [tinylm.reward(text, str(a + b)) for text in texts]
    adv = lab.group_advantages(rewards, 8)
    opt, norms, stats, old = torch.optim.Adam(policy.parameters(), lr=3e-4), [], [], None
    with torch.no_grad():
        ref_logp = tinylm.sequence_logprobs(ref, out)
    for k in range(5):
        logp = tinylm.sequence_logprobs(policy, out)
        old = logp.detach() if k < 2 else old
        loss, s = lab.grpo_loss(logp, old, ref_logp, adv, out["mask"])
        opt.zero_grad()
        loss.backward()
        if k == 0:
            grads = torch.cat([p.grad.flatten() for p in policy.parameters()])
            assert relative(found["grads"], grads) < 1e-4
        norms.append(float(torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)))
        opt.step()
        stats.append(s | {"loss": loss.item()})
        if k == 0:
            assert relative(found["afterOne"], weights.flat(policy)) < 1e-4
    assert relative(found["afterFive"], weights.flat(policy)) < 1e-4
    assert relative(found["norms"], norms) < 1e-3
    with torch.no_grad():
        assert apart(found["logp"], tinylm.sequence_logprobs(policy, out)) < 1e-3
    for got, right in zip(found["stats"], (stats[0], stats[4])):
        assert apart([got[key] for key in right], list(right.values())) < 1e-3


def test_a_run_in_the_page_learns(js, page):
    """Twelve steps on one sum, from the SFT model: its right answer becomes likelier."""
    found = js.run("""
        const run = explore.step.startRun(floats(given.weights), { lr: 1e-3 });
        const random = explore.random.makeRandom(7), p = [];
        for (let i = 0; i < 12; i++) {
          p.push(explore.tinylm.answers(run.policy, given.prompt).numbers[given.answer]);
          explore.step.nextStep(run, [given.prompt], random);
        }
        return [p, run.steps];""", weights=packed(sft()), prompt="33+19=", answer=52)
    p, steps = found
    assert steps == 12 and p[-1] > max(0.8, p[0] + 0.2)


def test_random_numbers_are_uniform():
    """Ten bins of 20,000 numbers of each of five seeds."""
    found = engines.node().run("""
        return [0, 1, 2, 3, 4294967295].map((seed) => {
          const random = explore.random.makeRandom(seed), bins = Array(10).fill(0);
          for (let i = 0; i < 20000; i++) bins[Math.floor(10 * random())] += 1;
          return bins;
        });""")
    assert len({tuple(bins) for bins in found}) == 5
    for bins in found:
        assert sum((n - 2000) ** 2 / 2000 for n in bins) < 28  # chi-square, 9 degrees: p = 0.001


def test_packing_loses_no_more_than_half_a_step():
    """unpack(pack(x)) is x but for rounding, for weights of every size and sign."""
    rng, counts = random.Random(0), [400, 100, 1]
    scales = [10 ** rng.uniform(-6, 3) for _ in counts]
    models = [torch.cat([torch.tensor([rng.uniform(-s, s) for _ in range(n)])
                         for s, n in zip(scales, counts)]).numpy() for _ in range(4)]
    data, exponents = weights.pack(models, counts)
    step = weights.steps(exponents, counts)
    for x, y in zip(models, weights.unpack(data, exponents, counts)):
        assert (abs(x.astype(float) - y) <= 0.5001 * step).all()
        assert (abs(y) <= 32767 * step).all()
    assert all(2**e * 32767 / 2 < s for e, s in zip(exponents, scales))  # no step is too large
    with pytest.raises(ValueError, match="not whole models"):
        weights.unpack(data, exponents, [400, 100, 2])
