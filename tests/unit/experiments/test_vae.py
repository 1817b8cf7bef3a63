"""Pieces of the VAE experiment: densities, encoders, checkpoints, labels of imputed images."""

import jax
import jax.numpy as jnp
import numpy as np

from experiments import imputation, vae, vae_networks, vae_training

DIM = 3
X = (jax.random.uniform(jax.random.key(5), (4, vae_networks.PIXELS)) < 0.3).astype(jnp.float32)


def test_the_score_is_the_gradient_of_the_log_joint():
    _, decoder = vae_networks.init(jax.random.key(0), "svgd", DIM)
    z = jax.random.normal(jax.random.key(1), (4, 2, DIM), jnp.float32)

    def log_joint(z):
        probability = jax.nn.sigmoid(vae_networks.apply(decoder, z.astype(jnp.float64)))
        pixels = X[:, None] * jnp.log(probability) + (1 - X[:, None]) * jnp.log1p(-probability)
        return pixels.sum() - 0.5 * jnp.sum(z**2)

    expected = jax.grad(log_joint)(z.astype(jnp.float64))
    np.testing.assert_allclose(vae_networks.score(z, X, decoder), expected, rtol=1e-3, atol=1e-3)
    likelihood = vae_networks.log_likelihood(decoder, z, X).sum() - 0.5 * jnp.sum(z**2)
    np.testing.assert_allclose(likelihood, log_joint(z), rtol=1e-5)


def test_the_implicit_encoder_is_a_network_of_image_and_noise(monkeypatch):
    monkeypatch.setattr(vae_networks, "drop", lambda key, h: h)
    encoder, _ = vae_networks.init(jax.random.key(0), "svgd", DIM)
    key = jax.random.key(2)
    noise = jax.random.normal(jax.random.split(key, 3)[0], (4 * 5, DIM), jnp.float32)
    whole = jnp.concatenate([jnp.repeat(X, 5, axis=0), noise], axis=1)
    found = vae_networks.implicit_samples(encoder, X, key, 5)
    np.testing.assert_allclose(found, vae_networks.apply(encoder, whole).reshape(4, 5, DIM), rtol=1e-4, atol=1e-4)


def test_dropout_keeps_the_mean():
    found = np.asarray(vae_networks.drop(jax.random.key(0), jnp.ones((400, 500))))
    np.testing.assert_allclose([(found == 0).mean(), found.mean()], [0.3, 1.0], atol=0.01)


def test_binarised_images_have_their_grey_levels_as_means():
    pixels = jnp.broadcast_to(jnp.array([0, 64, 128, 255], jnp.uint8), (20_000, 4))
    found = np.asarray(vae_training.binarise(jax.random.key(0), pixels))
    np.testing.assert_allclose(found.mean(0), np.array([0, 64, 128, 255]) / 255, atol=0.02)
    assert found[:, 0].max() == 0


def test_a_killed_training_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(vae_training, "CHECKPOINTS", tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (300, vae_networks.PIXELS), dtype=np.uint8)
    monkeypatch.setattr(vae_training, "WATCH_EVERY", 2)
    watch = lambda decoder: float(jnp.sum(decoder[0]["w"]))
    train = lambda name, epochs: vae_training.train(name, "s-svgd", DIM, 4, epochs, 0, pixels, 2, watch)
    train("stopped", 1)
    *resumed, history = train("stopped", 2)
    *whole, _ = train("whole", 2)
    assert len(history["seconds"]) == 2
    np.testing.assert_array_equal(history["watched"], [np.nan, watch(resumed[1])])
    for one, other in zip(jax.tree.leaves(resumed), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_entropy_and_accuracy_of_labels():
    entropy, accuracy = imputation.entropy_and_accuracy(np.array([[1, 1, 2, 2], [3, 3, 3, 3]]), np.array([1, 3]))
    np.testing.assert_allclose([entropy, accuracy], [np.log(2) / 2, 0.75])


def test_nearest_labels():
    train = np.eye(3, 784, dtype=np.float32)
    images = train[[2, 0, 1]] + 0.1
    np.testing.assert_array_equal(imputation.nearest_labels(images, train, np.array([7, 8, 9]), block=2), [9, 7, 8])


def test_imputation_keeps_what_was_seen():
    encoder, decoder = vae_networks.init(jax.random.key(0), "svgd", DIM)
    grey = np.full((2, 28, 28), 100, np.uint8)
    data = {"x_test": grey, "y_test": np.array([0, 1]), "x_train": grey, "y_train": np.array([0, 1])}
    settings = {"method": "svgd", "images": 2, "chains": 3, "steps": 2}
    *_, whole = imputation.evaluate(encoder, decoder, data, X, jax.random.key(1), **settings)
    assert whole.shape == (2, 3, 784)
    np.testing.assert_array_equal(whole[:, :, :392], np.float32(100) / np.float32(255))
    assert whole[:, :, 392:].std() > 0.01


def test_tables_show_what_is_there():
    row = {"log_likelihood": -90.0, "log_p": [-80.0, -100.0], "seconds_per_step": 0.05}
    rows = [
        row | {"method": "svgd", "dim": 48},
        row | {"method": "s-svgd", "dim": 48, "log_p": [-78.0, -99.0]},
        row | {"method": "vae", "dim": 32, "entropy": 0.5, "accuracy": 0.75},
    ]
    assert "| svgd |  | -90.00 (-93.47) |" in vae.table(rows)
    assert "| vae | 0.500 (0.297) | 0.750 (0.718) | 0.0500 |" in vae.table(rows)
    assert "| svgd |  | +1.50 ± 0.50 |" in vae.differences(rows)
