"""Numbers by place in a lineage."""

from ttsflow.engines.remembered import Remembered


def test_a_number_stays_with_its_path_until_its_problem_is_the_oldest_of_too_many():
    kept = Remembered(problems=2)
    kept.put("p", (0,), 7)
    kept.put("q", (), 8)
    kept.put("p", (0, 1), 9)
    assert [kept.get("p", (0,)), kept.get("p", (0, 1)), kept.get("p", (1,)), kept.get("q", ())] == [
        7,
        9,
        0,
        8,
    ]
    kept.put("r", (), 1)
    assert [kept.get("p", (0,)), kept.get("q", ()), kept.get("r", ())] == [7, 0, 1]
    kept.clear()
    assert kept.get("p", (0,)) == 0
