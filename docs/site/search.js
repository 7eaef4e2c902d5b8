// The search over index, which stands above: a list of headings with the text below each of them.
const box = document.getElementById("search"), list = document.getElementById("found");
const nav = document.querySelector("nav details");
if (matchMedia("(max-width: 50rem)").matches) nav.open = false;

// score is 0 if a word is missing. A word in a heading counts more than one in the text.
function score(entry, words) {
  const name = entry.name.toLowerCase(), page = entry.page.toLowerCase(), text = entry.words.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const points = (name.includes(word) ? 20 : 0) + (page.includes(word) ? 5 : 0) + Math.min(5, text.split(word).length - 1);
    if (!points) return 0;
    sum += points;
  }
  return sum;
}

box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  list.replaceChildren();
  list.hidden = !words.length;
  if (!words.length) return;
  const found = index.map(entry => [score(entry, words), entry]).filter(([points]) => points).sort((a, b) => b[0] - a[0]);
  for (const [, entry] of found.slice(0, 20)) {
    const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("small");
    link.href = document.body.dataset.up + entry.href;
    link.textContent = entry.name === entry.page ? entry.page : entry.page + " › " + entry.name;
    const at = Math.max(0, entry.words.toLowerCase().indexOf(words[0]) - 60);
    text.textContent = entry.words.slice(at, at + 180);
    item.append(link, text);
    list.append(item);
  }
  if (!found.length) list.textContent = "Nothing has these words.";
});
list.addEventListener("click", () => { list.hidden = true; });
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); box.select(); }
  if (event.key === "Escape") { list.hidden = true; box.blur(); }
});
