"""Places that a script claims beside its agent's."""

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("role", "index", "own", "refused"),
    [
        ("worker", 0, "worker:0", False),
        ("worker", 0, "worker:1", True),
        ("chief", 0, "worker:0", False),
        ("worker", 0, None, False),
        (None, None, "worker:1", False),
    ],
)
def test_only_another_tasks_place_in_the_same_role_is_refused(
    role: str | None, index: int | None, own: str | None, refused: bool
) -> None:
    from tfscale.trainer.compat.listings.claimed_places import doubt

    assert (doubt(role, index, own) is not None) is refused
