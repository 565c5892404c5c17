"""Draws 300 small pipelines, solves each to its optimum with CP-SAT, and writes optima.csv.

    pip install ortools && python tests/tools/search/optima.py > tests/tools/search/optima.csv

The model shares nothing with the library but the theorem that micro-batches may ascend: begins as variables, a worker
runs one action at a time, a link transfers one micro-batch at a time, and a worker's bytes are a cumulative resource.
No bound and no table is given. A pipeline that is not proven in time is left out, and another is drawn.

A line is: 1 for a V or 0, workers, micro-batches, bytes of each worker, the optimum; then for each stage its times
forward, input part and parameter part, the bytes kept and held, and the times of its link to the next stage and back.
"""

import random
import sys

from ortools.sat.python import cp_model

SECONDS = 20
COUNT = 300
# Sizes that are proven quickly: workers, and the most micro-batches of a single placement and of a V.
SIZES = {2: (10, 7), 3: (9, 5), 4: (8, 4)}


def draw(rng):
    v = rng.random() < 0.4
    workers = rng.choice(list(SIZES))
    micro_batches = rng.randint(2, SIZES[workers][v])
    spread = rng.choice([1.0, 1.5, 2.0])
    slowest = rng.choice([0, 2, 12])
    share = rng.choice([1.0, 0.75, 0.625, 0.5])
    base = 4

    def spread_of(value):
        return round(value * rng.uniform(1.0, spread))

    stages = []
    for _ in range(workers * (1 + v)):
        kept = spread_of(10)
        link = (rng.randint(0, slowest), rng.randint(0, slowest))
        stages.append((*(spread_of(base) for _ in range(3)), kept, round(kept * rng.choice([0.3, 0.6, 1.0])), *link))
    on = [[s for s in range(len(stages)) if worker_of(s, workers) == w] for w in range(workers)]
    least = [sum(stages[s][3] for s in own) for own in on]
    limit = max(max(least), round(share * workers * sum(least) / workers))
    return v, workers, micro_batches, limit, stages


def worker_of(stage, workers):
    return stage if stage < workers else 2 * workers - 1 - stage


def solve(v, workers, micro_batches, limit, stages):
    model = cp_model.CpModel()
    S, horizon = len(stages), micro_batches * sum(sum(s[:3]) + s[5] + s[6] for s in stages)
    begin, end, on, bytes_on = {}, {}, [[] for _ in range(workers)], [[] for _ in range(workers)]
    links = {}

    def variable():
        return model.new_int_var(0, horizon, "")

    for s in range(S):
        w = worker_of(s, workers)
        for i in range(micro_batches):
            for kind in range(3):
                at = begin[kind, s, i] = variable()
                end[kind, s, i] = at + stages[s][kind]
                on[w].append(model.new_fixed_size_interval_var(at, stages[s][kind], ""))
                if i > 0:
                    model.add(at >= end[kind, s, i - 1])
            for kind in (1, 2):
                model.add(begin[kind, s, i] >= end[kind - 1, s, i])
            # Bytes: kept from the forward's begin to the input part's end, held from there to the parameter part's.
            for first, last, amount in ((begin[0, s, i], end[1, s, i], stages[s][3]),
                                        (end[1, s, i], end[2, s, i], stages[s][4])):
                length = variable()
                model.add(length == last - first)
                bytes_on[w].append((model.new_interval_var(first, length, last, ""), amount))

    def hand_over(kind, source, target, time):
        for i in range(micro_batches):
            if time == 0 or worker_of(source, workers) == worker_of(target, workers):
                model.add(begin[kind, target, i] >= end[kind, source, i])
                continue
            at = variable()
            model.add(at >= end[kind, source, i])
            model.add(begin[kind, target, i] >= at + time)
            links.setdefault((kind, source), []).append(model.new_fixed_size_interval_var(at, time, ""))

    for s in range(S - 1):
        hand_over(0, s, s + 1, stages[s][5])
        hand_over(1, s + 1, s, stages[s][6])
    for w in range(workers):
        model.add_no_overlap(on[w])
        model.add_cumulative([i for i, _ in bytes_on[w]], [a for _, a in bytes_on[w]], limit)
    for transfers in links.values():
        model.add_no_overlap(transfers)
    makespan = variable()
    for s in range(S):
        model.add(makespan >= end[2, s, micro_batches - 1])
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = SECONDS
    solver.parameters.num_workers = 4
    if solver.solve(model) == cp_model.OPTIMAL:
        return round(solver.objective_value)
    return None


def main():
    rng = random.Random(2026)
    solved = 0
    print("# v, workers, micro-batches, bytes, optimum; of each stage F, I, W, kept, held, link there, back")
    while solved < COUNT:
        pipeline = draw(rng)
        optimum = solve(*pipeline)
        if optimum is None:
            print("left out:", pipeline, file=sys.stderr)
            continue
        v, workers, micro_batches, limit, stages = pipeline
        print(",".join(map(str, [int(v), workers, micro_batches, limit, optimum, *(n for s in stages for n in s)])))
        sys.stdout.flush()
        solved += 1


if __name__ == "__main__":
    main()
