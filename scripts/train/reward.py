"""reward.py - how well a batch of pictures shows what its captions say, on the GPU and at once.

The same reading as judge_net.look and judge_net.score, one picture at a time there, in tensors: of all ways to pair the
asked things with the seen ones the best counts, and every attribute has a probability beside its yes or no.
"""
from itertools import product

import torch
import torch.nn.functional as F

from judge_net import fit
from world import BACKGROUNDS, COLOUR_NAMES, SHAPES, SIZE_NAMES, ZONE_NAMES

SEEN = 6                       # things looked at; slot SEEN stands for "not there"
MOST = 3                       # things asked
RELATIONS = 2
ORDERS = [o for o in product(range(SEEN + 1), repeat=MOST)
          if all(o.count(k) == 1 for k in o if k < SEEN)]
CLEAR, CLOSE = 0.64, 0.36      # borders of a zone, as judge_net.zone_of has them
APART = 0.05                   # a relation's least distance


def _index(names, word):
    return -1 if word is None else names.index(word)


def pack_asked(asked):
    """Records of captions.Asked as tensors; -1 where nothing was said."""
    things = torch.full((len(asked), MOST, 4), -1)
    relations = torch.full((len(asked), RELATIONS, 3), -1)
    back = torch.full((len(asked), 3), -1)
    for b, one in enumerate(asked):
        for i, t in enumerate(one.things):
            things[b, i] = torch.tensor([_index(SHAPES, t["shape"]), _index(COLOUR_NAMES, t["colour"]),
                                         _index(SIZE_NAMES, t["size"]), _index(ZONE_NAMES, t["zone"])])
        for r, (i, relation, j) in enumerate(one.relations):
            relations[b, r] = torch.tensor([i, int(relation == "above"), j])
        if one.background:
            kind, first, second = one.background
            back[b] = torch.tensor([_index(BACKGROUNDS, kind), _index(COLOUR_NAMES, first), _index(COLOUR_NAMES, second)])
    return {"things": things, "relations": relations, "back": back, "count": torch.tensor([len(a.things) for a in asked])}


def _seen(local):
    """Per picture the SEEN likeliest things: probabilities of their names, places, and how many there are in all."""
    heat = torch.sigmoid(local["heat"][:, 0])
    peak = (heat == F.max_pool2d(heat[:, None], 5, 1, 2)[:, 0]) & (heat > 0.4)
    high, wide = heat.shape[1:]
    top, at = torch.where(peak, heat, 0).flatten(1).topk(SEEN)

    def here(name):
        rows = local[name].flatten(2)
        return rows.gather(2, at[:, None].expand(-1, rows.shape[1], -1)).mT

    off = here("offset")
    x = (at % wide + 0.5 + off[..., 0]) / wide
    y = (at // wide + 0.5 + off[..., 1]) / high
    names = [here(name).softmax(-1) for name in ("shape", "colour", "size")]
    zone = ((y > CLOSE).long() + (y > CLEAR)) * 3 + (x > CLOSE).long() + (x > CLEAR)
    names.append(F.one_hot(zone, len(ZONE_NAMES)).float())
    return names, torch.stack([x, y], 1), top > 0, peak.sum((1, 2))


def _pairings(names, there, want):
    """[B, MOST, 4, SEEN + 1]: the probability, and the yes or no, of each asked word for each seen thing."""
    chance, right = [], []
    for k, table in enumerate(names):
        word = want[:, :, k].clamp(min=0)
        p = table[:, None].expand(-1, MOST, -1, -1).gather(3, word[:, :, None, None].expand(-1, -1, SEEN, 1))[..., 0]
        yes = table.argmax(-1)[:, None] == word[:, :, None]
        chance.append(F.pad(p * there[:, None], (0, 1)))
        right.append(F.pad((yes & there[:, None]).float(), (0, 1)))
    return torch.stack(chance, 2), torch.stack(right, 2)


def _background(whole, back):
    """The probability and the yes or no of the asked background."""
    kind, first, second = back.clamp(min=0).unbind(1)
    index = torch.arange(len(back), device=back.device)
    seen = {k: whole[k].softmax(-1) for k in ("background", "first", "second")}
    best = {k: v.argmax(-1) for k, v in seen.items()}
    plain, two = kind == 0, kind >= BACKGROUNDS.index("stripes")
    p = seen["background"][index, kind]
    a, b = seen["first"], seen["second"]
    pair = a[index, first] * b[index, second] + a[index, second] * b[index, first]
    p = p * torch.where(plain, a[index, first], torch.where(two, pair, 1.0))
    same = ((best["first"] == first) & (best["second"] == second)) | ((best["first"] == second) & (best["second"] == first))
    yes = (best["background"] == kind) & torch.where(plain, best["first"] == first, same | ~two)
    return p, yes.float()


@torch.no_grad()
def look_at(judge, pictures, asked):
    """(right [B], share [B], chance [B]): all of it there, which part of it, and the mean probability of the words."""
    local, whole = judge(fit(pictures))
    local, whole = ({k: v.float() for k, v in part.items()} for part in (local, whole))
    names, place, there, count = _seen(local)
    want, relations = asked["things"], asked["relations"]
    said = (want >= 0).float()
    chance, right = _pairings(names, there, want)
    orders = torch.tensor(ORDERS, device=pictures.device).T                      # [MOST, orders]
    merit = ((right + 0.5 * chance) * said[..., None]).sum(2)                    # [B, MOST, SEEN + 1]
    total = sum(merit[:, i][:, orders[i]] for i in range(MOST))
    place = F.pad(torch.where(there[:, None], place, torch.nan), (0, 1), value=torch.nan)
    index = torch.arange(len(want), device=want.device)
    held = []
    for i, axis, j in (relations[:, r].clamp(min=0).unbind(1) for r in range(RELATIONS)):
        line = place[index, axis]
        held.append((line.gather(1, orders[i]) < line.gather(1, orders[j]) - APART).float())
    held = torch.stack(held, 1)                                                  # [B, RELATIONS, orders]
    related = (relations[:, :, 0] >= 0).float()
    best = (total + 1.5 * (held * related[..., None]).sum(1)).argmax(1)
    slots = orders[:, best].T[:, :, None, None].expand(-1, -1, 4, 1)
    held = held.gather(2, best[:, None, None].expand(-1, RELATIONS, 1))[..., 0]
    counted = (count == asked["count"]).float()[:, None]
    p, yes = _background(whole, asked["back"])
    mask = torch.cat([said.flatten(1), related, torch.ones_like(counted), (asked["back"][:, :1] >= 0).float()], 1)
    hard = torch.cat([right.gather(3, slots)[..., 0].flatten(1), held, counted, yes[:, None]], 1)
    soft = torch.cat([chance.gather(3, slots)[..., 0].flatten(1), held, counted, p[:, None]], 1)
    n = mask.sum(1)
    return ((hard * mask + 1 - mask).prod(1), (hard * mask).sum(1) / n, (soft * mask).sum(1) / n)
