"""Numbers that the paper reports (Shi et al., A Scalable Optimization Mechanism for Pairwise based Discrete Hashing).

A row has the scores at the table's bit lengths and the training seconds at the longest (MATLAB, 3.5 GHz Xeon). A score
or a time that the paper does not give is None. Keys are protocols and the names of methods in ``tables.py``.
"""

from __future__ import annotations

# Scores of a row of a published table, one per code length, and the training seconds where they are printed.
PublishedScores = tuple[tuple[float, ...], float | None]

# MAP@500, 8 16 32 64 bits.
TABLE_1: dict[str, dict[str, PublishedScores]] = {
    "cifar10-1k": {
        "sdhp": ((0.5755, 0.5981, 0.6102, 0.6222), 11),
        "gsdhp": ((0.5600, 0.5992, 0.6272, 0.6300), 24),
        "ksh": ((0.4281, 0.4706, 0.5098, 0.5270), 4.6e3),
        "cca-itq": ((0.2014, 0.1984, 0.2147, 0.2316), 0.9),
        "sdh": ((0.4970, 0.5370, 0.5670, 0.5781), 7.3),
        "cosdish": ((0.5116, 0.5912, 0.5980, 0.6162), 15),
        "ksdh": ((0.5370, 0.5740, 0.5900, 0.6000), 3.5),
        "adgh": ((0.5360, 0.5700, 0.5980, 0.6020), 1.4),
        "rsh": ((0.2121, 0.1889, 0.1812, 0.1810), 7.5e4),
        "cgh": ((0.3013, 0.3040, 0.3255, 0.3305), 9.2e2),
        "top-rsbc": ((0.2568, 0.2404, 0.2400, 0.2544), 9.3e4),
        "dserh": ((0.2020, 0.2070, 0.2087, 0.2116), 2.7e3),
    },
    "cifar10-full": {
        "sdhp": ((0.5735, 0.6172, 0.6222, 0.6279), 33),
        "gsdhp": ((0.5680, 0.6142, 0.6239, 0.6333), 69),
        "ksh": ((0.4057, 0.4725, 0.5126, 0.5317), 3.5e4),
        "cca-itq": ((0.2338, 0.2224, 0.2473, 0.2745), 4.7),
        "sdh": ((0.4723, 0.5700, 0.5920, 0.6038), 52),
        "cosdish": ((0.5593, 0.6065, 0.6125, 0.6255), 92),
        "ksdh": ((0.5687, 0.5955, 0.6015, 0.6091), 76),
        "adgh": ((0.5731, 0.6097, 0.6113, 0.6119), 4.4),
    },
}

# MAP@1000, mean of ten draws, 8 16 32 64 bits. The authors' reprint has other cut-offs: right within 0.01 only.
TABLE_2: dict[str, dict[str, PublishedScores]] = {
    "cifar10-1k": {
        "ksh": ((0.4069, 0.4458, 0.4908, 0.5121), 4.6e3),
        "bre": ((0.1999, 0.2028, 0.2187, 0.2340), 1.3e5),
        "mlh": ((0.1509, 0.2581, 0.2491, 0.2467), 2.5e2),
        "fasth-ksh": ((0.5364, 0.5814, 0.6106, 0.6207), 4.1e2),
        "fasth-bre": ((0.5200, 0.5800, 0.6104, 0.6139), 4.1e2),
        "fasth-hinge": ((0.5243, 0.5775, 0.6150, 0.6305), 3.7e2),
        "gsdhp": ((0.5528, 0.5996, 0.6126, 0.6162), 24),
        "gsdhp-bre": ((0.5478, 0.5960, 0.6158, 0.6251), 58),
        "gsdhp-hinge": ((0.5582, 0.5961, 0.6136, 0.6240), 120),
        "gsdhp+trees": ((0.5482, 0.5921, 0.6207, 0.6282), 170),
        "gsdhp-bre+trees": ((0.5221, 0.5862, 0.6224, 0.6292), 180),
        "gsdhp-hinge+trees": ((0.5352, 0.5972, 0.6215, 0.6340), 210),
    },
}

# NDCG@50, 8 16 32 64 bits.
TABLE_4: dict[str, dict[str, PublishedScores]] = {
    "nuswide-10k": {
        "sdhp": ((0.2916, 0.3014, 0.3038, 0.3174), 4.3),
        "gsdhp": ((0.3588, 0.3889, 0.4083, 0.4311), 55),
        "ksh": ((0.2755, 0.2730, 0.2554, 0.2395), 2.1e3),
        "cca-itq": ((0.2522, 0.2337, 0.2248, 0.2145), 0.4),
        "sdh": ((0.3108, 0.3674, 0.3674, 0.3494), 25),
        "cosdish": ((0.3169, 0.3606, 0.3989, 0.3801), 35),
        "ksdh": ((0.3227, 0.3125, 0.3091, 0.3092), 5.3),
        "rsh": ((0.2040, 0.2061, 0.2088, 0.2193), 9.2e4),
        "cgh": ((0.2163, 0.2228, 0.2475, 0.2323), 1.5e3),
        "top-rsbc": ((0.1962, 0.2238, 0.2564, 0.2758), 8.9e4),
        "dserh": ((0.2158, 0.2264, 0.2271, 0.2210), 8.2e3),
    },
    "nuswide-full": {
        "sdhp": ((0.3010, 0.3094, 0.3431, 0.3313), 77),
        "gsdhp": ((0.4152, 0.4521, 0.4646, 0.4875), 500),
        "cca-itq": ((0.2562, 0.2551, 0.2528, 0.2475), 8.8),
        "sdh": ((0.3381, 0.3927, 0.3838, 0.3827), 3.8e2),
        "cosdish": ((0.3649, 0.3539, 0.4279, 0.4323), 3.5e2),
    },
}

# NDCG@50, 8 16 32 64 bits.
TABLE_6: dict[str, dict[str, PublishedScores]] = {
    "coco-10k": {
        "sdhp": ((0.1932, 0.2476, 0.3165, 0.3465), 2.7),
        "gsdhp": ((0.2526, 0.3550, 0.4136, 0.4385), 55),
        "ksh": ((0.2352, 0.3226, 0.3810, 0.4168), 2.7e3),
        "cca-itq": ((0.2293, 0.3367, 0.3947, 0.4103), 0.3),
        "sdh": ((0.1911, 0.3218, 0.3911, 0.4345), 21),
        "cosdish": ((0.1623, 0.2382, 0.2438, 0.2890), 22),
        "ksdh": ((0.1623, 0.2000, 0.2292, 0.2597), 2.7),
        "rsh": ((0.2156, 0.2751, 0.3299, 0.3583), 6.1e4),
        "cgh": ((0.1566, 0.1928, 0.2176, 0.2324), 1.9e3),
        "top-rsbc": ((0.1547, 0.1843, 0.2045, 0.2845), 8.6e4),
        "dserh": ((0.2144, 0.2556, 0.3210, 0.3560), 1.7e3),
    },
    "coco-full": {
        "sdhp": ((0.1756, 0.2427, 0.3252, 0.3471), 23),
        "gsdhp": ((0.2240, 0.3160, 0.3760, 0.4020), 610),
        "cca-itq": ((0.1831, 0.2426, 0.2902, 0.3032), 10),
        "sdh": ((0.1684, 0.2430, 0.3537, 0.3846), 3.2e2),
        "cosdish": ((0.1557, 0.1741, 0.2013, 0.2146), 1.9e2),
    },
}

# Deep methods: MAP@5000 at 12 24 32 48 bits, then MAP within Hamming radius 2 at 16 32 48 64 bits.
DeepScores = dict[str, tuple[tuple[float, ...] | None, tuple[float, ...]]]
TABLE_3: DeepScores = {
    "gsdhp-star": ((0.791, 0.786, 0.780, 0.776), (0.8480, 0.8480, 0.8400, 0.8329)),
    "cnnh": ((0.429, 0.511, 0.509, 0.522), (0.5512, 0.5468, 0.5454, 0.5364)),
    "dnnh": ((0.552, 0.566, 0.558, 0.581), (0.5703, 0.5985, 0.6421, 0.6118)),
    "dhn": ((0.555, 0.594, 0.603, 0.621), (0.6929, 0.6445, 0.5835, 0.5883)),
    "hashnet": (None, (0.7576, 0.7776, 0.6399, 0.6259)),
    "dch": (None, (0.7901, 0.7979, 0.8071, 0.7936)),
}
TABLE_5: DeepScores = {
    "gsdhp-star": ((0.759, 0.791, 0.806, 0.799), (0.8073, 0.8025, 0.7572, 0.7442)),
    "cnnh": ((0.617, 0.663, 0.657, 0.688), (0.5843, 0.5989, 0.5734, 0.5729)),
    "dnnh": ((0.674, 0.697, 0.713, 0.715), (0.6191, 0.6216, 0.5902, 0.5626)),
    "dhn": ((0.708, 0.735, 0.748, 0.758), (0.6901, 0.7021, 0.6736, 0.6190)),
    "hashnet": (None, (0.6944, 0.7147, 0.6736, 0.6190)),
    "dch": (None, (0.7401, 0.7720, 0.7685, 0.7124)),
}

# Remarks on rows of ours whose settings are not the defaults of their method: how they differ from the paper's rows.
# Remarks on the methods themselves are in their ``info``.
VARIANT_REMARKS: dict[str, str] = {
    "ksh-large": "all rows, 1,000 landmarks, 40 steps per bit",
    "cca-itq-rbf": "on kernel features",
    "fasth-ksh": "LightGBM trees instead of AdaBoost; codes are hashed by the trees, as its authors do",
    "fasth-bre": "as fasth-ksh",
    "fasth-hinge": "as fasth-ksh",
    "gsdhp+trees": "queries hashed by trees",
}
