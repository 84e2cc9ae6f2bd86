"""The job of the other examples: it counts primes on all nodes of the cluster."""

import ray


def primes_below(limit: int) -> int:
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, limit))


if __name__ == "__main__":
    ray.init()
    task = ray.remote(primes_below)
    counts = ray.get([task.remote(limit) for limit in (1_000, 2_000, 3_000)])
    print("primes:", counts)
