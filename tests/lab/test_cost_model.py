# SPDX-License-Identifier: GPL-2.0-only
"""The cost model: its prices, its ratios, and the prices of a measured machine."""
import pytest

from lab.measure import model


def test_a_far_walk_costs_more_than_a_near_one_by_what_policy_auto_takes():
    from lab.bench import costs
    one_far = {"instructions": 0, "interrupts": 0, "faults": 0, "far_walks": 1}
    assert model.ns({"far_walks": 1}) - model.ns({"near_walks": 1}) == costs.cost(one_far) == 75


def test_every_price_has_a_source():
    assert all(price.ns > 0 and price.what and price.source for price in model.PRICES.values())


def test_prices_but_that_of_an_instruction_are_halved_and_doubled():
    counts = {"instructions": 1000, **model.interrupts(2), "faults": 1}
    assert [model.ns(counts, times) for times in (0.5, 1, 2)] == [330 + times * 3700 for times in (0.5, 1, 2)]
    with pytest.raises(KeyError):
        model.ns({"colour": 1})


@pytest.mark.parametrize("counts, base, text", [
    ({"instructions": 1000}, {"instructions": 1000}, "1.00 (model; prices halved 1.00, doubled 1.00)"),
    ({"sent": 1}, {"sent": 2}, "0.50 (model; prices halved 0.50, doubled 0.50)"),
    # More instructions for fewer interrupts: what pays depends on the prices.
    ({"instructions": 4000}, {"instructions": 1000, "sent": 2},
     "0.99 (model; prices halved 1.59, doubled 0.57; the verdict flips: slower with prices halved and faster with prices doubled)")])
def test_a_ratio_names_what_other_prices_make_of_the_verdict(counts, base, text):
    assert str(model.ratio(counts, base)) == text


def test_no_ratio_to_nothing():
    assert model.ratio({"faults": 1}, {"faults": 0}) is None


def entry(row, case, policy, metric, value, run=1):
    return {"row": row, "case": case, "policy": policy, "metric": metric, "value": value, "unit": "", "run": run}


def document(far=0.3):
    return {"values": [entry("mprotect", "quiet", "linux", "us_per_op", 1.0), entry("mprotect", "remote-spinners", "linux", "us_per_op", 8.0),
                       entry("mprotect", "remote-spinners", "linux", "us_per_op", 9.0, 2), entry("mprotect", "remote-spinners", "linux", "interrupts_per_op", 5),
                       entry("prefetch", "first", "linux", "us_per_op", far), entry("prefetch", "first", "mitosis", "us_per_op", 0.2)]}


def test_a_measured_machine_has_prices_of_its_own():
    made = model.of_machine(document())
    assert made["sent"].ns == 1500 and "./hydra here" in made["sent"].source and made["far_walks"].ns == pytest.approx(150)
    assert {name: price for name, price in made.items() if name not in ("sent", "far_walks")} == {name: price for name, price in model.PRICES.items() if name not in ("sent", "far_walks")}
    assert model.ns({"sent": 1}, prices=made) == 1500


def test_what_makes_no_sense_is_left_out():
    made = model.of_machine(document(far=0.1))
    assert made["far_walks"] == model.PRICES["far_walks"] and model.of_machine({"values": []}) == model.PRICES
