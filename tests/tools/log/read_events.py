"""Compares a log in TensorBoard's format, read by the package tensorboard, with the table of the same training:

    read_events.py FOLDER TABLE.csv
"""

import csv
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder, table = sys.argv[1:]
tags = {
    "loss": "train/epoch_loss",
    "step_loss": "train/loss",
    "rate": "train/rate",
    "norm": "train/norm",
    "samples_per_second": "train/samples_per_second",
    "waiting": "train/waiting",
}
events = EventAccumulator(folder, size_guidance={"scalars": 0})
events.Reload()
with open(table, newline="") as lines:
    rows = list(csv.DictReader(lines))
assert len(rows) > 10, "the table has too few rows"
assert set(events.Tags()["scalars"]) == set(tags.values()), events.Tags()["scalars"]
for column, tag in tags.items():
    curve = events.Scalars(tag)
    assert len(curve) == len(rows), (tag, len(curve), len(rows))
    for event, row in zip(curve, rows):
        in_float = struct.unpack("f", struct.pack("f", float(row[column])))[0]
        assert event.step == int(row["step"]), (tag, event.step, row["step"])
        assert event.value == in_float, (tag, event.step, event.value, row[column])
        assert abs(event.wall_time - float(row["time"])) < 60, (event.wall_time, row["time"])
print(f"tensorboard reads {len(rows)} steps of {len(tags)} curves")
