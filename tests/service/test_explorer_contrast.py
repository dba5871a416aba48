"""Contrast of texts on the explorer page, in Chromium: at least 4.5 to 1 (WCAG 2, AA), on light and on dark ground."""

import pytest

# Texts with too little contrast: [text, contrast]. The ground is that of the nearest element that has one; disabled
# parts may be faint.
FAINT = """
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const rgba = color => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = color => rgba(color).slice(0, 3)
        .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const groundOf = node => {
        for (; node; node = node.parentElement) {
            const color = getComputedStyle(node).backgroundColor;
            if (rgba(color)[3] === 255) return color;
        }
        return 'white';
    };
    const left = 'noscript, option, svg, :disabled, .hidden, .skip';
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), faint = [];
    let seen = 0;
    for (let text = walk.nextNode(); text; text = walk.nextNode()) {
        const node = text.parentElement;
        if (!text.data.trim() || !node.checkVisibility() || node.closest(left)) continue;
        seen += 1;
        const lights = [light(getComputedStyle(node).color), light(groundOf(node))].sort((a, b) => b - a);
        const contrast = (lights[0] + 0.05) / (lights[1] + 0.05);
        if (contrast < 4.5) faint.push([text.data.slice(0, 40), contrast]);
    }
    return seen > 10 ? faint : ['only', seen];"""


@pytest.fixture
def scheme(page, request):
    features = [{"name": "prefers-color-scheme", "value": request.param}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    yield request.param
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("scheme", ["light", "dark"], indirect=True)
def test_texts_can_be_read(page, scheme):
    for address in ("?c=learned&id=4&show=labels", "?c=texts&id=4&c2=random", "?c=products&id=nothing&show=map"):
        page.open(address)
        page.until(lambda: "Computing" not in page.text("body"), address)
        assert page.js(FAINT) == [], (scheme, address)
