"""An episode of a trained policy as a GIF."""

import io
import os
from pathlib import Path

from varnet.base.files import write_atomically
from varnet.errors import ConfigError
from varnet.rl.env import INSTALL
from varnet.rl.run import make_env, trained
from varnet.rl.trainer import EVALUATION

NAME = "policy.gif"
SKIP, MILLISECONDS, WIDTH = 2, 40, 300  # every second step is shown, for 1/25 s: CartPole's own speed


def gif(folder: Path, path: Path | None = None) -> tuple[Path, float]:
    """One episode of the run in `folder`, with a draw of the weights that it has not seen: (file, score)."""
    from PIL import Image

    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # no display is needed
    trainer = trained(folder)
    from gymnasium.error import DependencyNotInstalled  # after what says that gymnasium is missing

    env = make_env(trainer.cfg, render=True)
    frames = []

    def watch(env) -> None:
        frames.append(env.render())

    try:
        played = trainer.play(EVALUATION, trainer.cfg.eval.actions == "greedy", watch, env)
    except DependencyNotInstalled as error:
        raise ConfigError(f"a GIF needs the package pygame-ce, which is not installed: {INSTALL}") from error
    finally:
        env.close()
    if frames[0] is None:
        raise ConfigError("draws no pictures: look at its scores instead", "env.id", trainer.cfg.env.id)
    images = [Image.fromarray(frame) for frame in frames[::SKIP]]
    images = [image.resize((WIDTH, WIDTH * image.height // image.width)).quantize(16) for image in images]
    buffer = io.BytesIO()
    images[0].save(buffer, "GIF", save_all=True, append_images=images[1:], duration=MILLISECONDS, loop=0)
    path = path or folder / NAME
    write_atomically(path, buffer.getvalue())
    return path, played.score
