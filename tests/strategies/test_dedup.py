from ttsflow.strategies.dedup import Dedup


def says(kit, path, text, finish="step"):
    return kit.cand(path, "A" if finish == "stop" else None, finish=finish).with_(text=text)


def test_the_first_of_equal_texts_stays_whatever_the_order_of_the_pool(kit):
    a, b, c = says(kit, 0, "x = 1\n"), says(kit, 1, "x = 2\n"), says(kit, 2, " x = 1")
    for pool in ((a, b, c), (c, b, a)):
        driver = kit.Driver()
        assert {one.path for one in driver.run(Dedup(), kit.state(*pool)).pool} == {(0,), (1,)}
        assert driver.note() == {"by": "text", "kept": [(0,), (1,)], "dropped": [(2,)]}


def test_a_pool_of_one_text_keeps_one(kit):
    pool = [says(kit, i, "same") for i in range(5)]
    assert [c.path for c in kit.Driver().run(Dedup(), kit.state(*pool)).pool] == [(0,)]


def test_those_that_ended_and_copies_are_left_alone(kit):
    beam = says(kit, 0, "same")
    pool = (beam, beam, says(kit, 1, "same", "stop"), says(kit, 2, "same", "stop"))
    assert kit.Driver().run(Dedup(), kit.state(*pool)).pool == pool
