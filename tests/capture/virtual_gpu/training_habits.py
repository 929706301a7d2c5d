"""This script does what training scripts do with numbers read from tensors, each habit by itself.
Run it with ``--gpu``; it prints a line for each that fails, and how many succeeded.
"""

# ruff: noqa: BLE001, PERF203, PT018, UP031

import copy
import csv
import io
import json
import logging
import math
import statistics
import sys
import tempfile
import traceback
from collections import defaultdict, deque
from pathlib import Path

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to("cuda")
step = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
labels = torch.randint(4, (16,), device="cuda")


def train():
    logits = step(torch.randn(16, 8, device="cuda"))
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    return logits, loss


logits, loss = train()


def formats():
    shown = f"{loss.item():.4f} {loss.item():8.2e} {loss.item():>10} {loss:.3f} {loss.item()!r}"
    shown += "%.4f %d %s" % (loss.item(), loss.item(), loss.item())
    shown += f"{loss.item():.2f} {loss.item()}" + str(loss.item()) + format(loss, ".2f")
    print("loss", loss.item(), loss, round(loss.item(), 3), loss.detach().cpu().item())
    assert "1.0000" in shown


def conversions():
    assert type(loss.item()) is float
    assert type(labels[0].item()) is int
    assert [float(loss), int(loss), bool(loss > 0), complex(loss.item()), int(labels.sum())]
    assert list(range(3))[labels[0]] == 1
    assert math.isfinite(loss) and math.exp(loss.item()) > 0 and math.log(loss) <= 1
    assert math.floor(loss.item()) <= math.ceil(loss.item()) and divmod(loss.item(), 2)
    assert math.isclose(loss.item(), loss.item()) and abs(loss.item()) ** 0.5


def arrays():
    predicted = logits.argmax(1)
    assert len(predicted.tolist()) == 16 and len(logits.tolist()[0]) == 4
    assert (
        predicted.cpu().numpy().shape == (16,) and logits.detach().cpu().numpy().dtype == np.float32
    )
    assert np.asarray(logits.detach().cpu()).shape == (16, 4)
    assert np.mean([loss.item(), loss.item()]) and np.array(loss.item()).item()
    assert logits.detach().float().cpu().numpy().mean() == 1
    assert predicted[0].cpu().numpy().item() == 1


def accuracy():
    correct = total = 0
    for _ in range(2):
        predicted = logits.argmax(dim=1)
        correct += (predicted == labels).sum().item()
        total += labels.size(0)
    counts = (logits.topk(2).indices == labels[:, None]).any(1).float().mean()
    print(f"accuracy {100.0 * correct / total:.2f}% top-2 {counts.item():.1%}")


def moving_averages():
    ema, window, meters = None, deque(maxlen=20), defaultdict(float)
    for _ in range(3):
        ema = loss.item() if ema is None else 0.9 * ema + 0.1 * loss.item()
        window.append(loss.item())
        meters["loss"] += loss.item() * labels.size(0)
    assert statistics.mean(window) + statistics.median(window) + sum(window) / len(window)
    assert max(window) >= min(window) and sorted(window) and np.median(window)
    assert torch.tensor(list(window)).mean().item() == ema


def early_stopping():
    best, patience = float("inf"), 0
    for _ in range(5):
        current = loss.item()
        if current < best:
            best, patience = current, 0
            kept = copy.deepcopy(model.state_dict())
        else:
            patience += 1
        if patience >= 3:
            break
    assert best == 1.0 and kept
    model.load_state_dict(kept)


def best_checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "best.pt")
        path.write_text("an earlier checkpoint")
        state = {"model": model.state_dict(), "opt": optimizer.state_dict(), "best": loss.item()}
        torch.save(state, path)
        assert path.read_text() == "an earlier checkpoint"
        model.load_state_dict(torch.load(path, map_location="cuda")["model"])
        torch.save({"config": torch.ones(2), "epoch": 3}, Path(folder, "real.pt"))
        assert torch.load(Path(folder, "real.pt"))["epoch"] == 3


def clipping():
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    if norm.item() > 10:
        print("large gradient", norm.item())
    total = sum(p.grad.norm(2).item() ** 2 for p in model.parameters()) ** 0.5
    optimizer.step()
    print(f"grad norm {norm:.2f} {total:.2f}")


def finite_checks():
    if torch.isnan(loss).any() or torch.isinf(loss).any():
        raise SystemExit("nan")
    if not torch.isfinite(loss) or not torch.isfinite(logits).all():
        raise SystemExit("not finite")
    if not math.isfinite(loss.item()) or math.isnan(loss.item()):
        raise SystemExit("not finite")
    assert torch.allclose(logits, logits) and torch.equal(labels, labels)
    assert not np.isnan(loss.item())


def schedulers():
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for _ in range(4):
        optimizer.step()
        plateau.step(loss.item())
        plateau.step(loss)
        cosine.step()
    assert f"{optimizer.param_groups[0]['lr']:.2e}"


def files():
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=["step", "loss"])
    writer.writeheader()
    writer.writerow({"step": 1, "loss": loss.item()})
    record = {"loss": loss.item(), "predicted": logits.argmax(1).tolist(), "lr": 1e-3}
    assert json.loads(json.dumps(record, sort_keys=True))["loss"] == 1.0
    logger = logging.getLogger("train")
    logger.addHandler(logging.StreamHandler(sys.stdout))
    logger.setLevel(logging.INFO)
    logger.info("loss %.4f acc %d%%", loss.item(), labels.sum().item())


def branches():
    if loss > 2:
        print("still high")
    while loss.item() > 5:
        break
    lengths = torch.full((3,), 4, device="cuda")
    assert sum(lengths.tolist()) == 3 and int(lengths.max()) == 1
    assert max(loss, loss) is loss


def accumulated():
    total = torch.zeros((), device="cuda")
    for _ in range(3):
        total += loss.detach()
    print(f"mean loss {total.item() / 3:.3f} perplexity {math.exp(min(20, total.item() / 3)):.2f}")
    assert torch.stack([loss.detach(), loss.detach()]).mean().item() == 1.0


HABITS = (
    formats, conversions, arrays, accuracy, moving_averages, early_stopping, best_checkpoint, clipping,
    finite_checks, schedulers, files, branches, accumulated,
)  # fmt: skip

went_through = 0
for habit in HABITS:
    try:
        habit()
        went_through += 1
    except BaseException:
        print("FAILED", habit.__name__, traceback.format_exc().replace("\n", " | ")[-700:])
print(f"{went_through} of {len(HABITS)} habits went through")
