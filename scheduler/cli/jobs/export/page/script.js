// Search and the large view of an exported gallery.  Without it the page is a grid of links.
'use strict';
const at = id => document.getElementById(id);
const tiles = [...document.querySelectorAll('#grid figure')];
const texts = tiles.map(tile => tile.textContent.toLowerCase());
const pictures = () => tiles.filter(tile => !tile.hidden && tile.dataset.full);
const box = at('box'), image = at('large');
const parents = new Map(); // of tiles whose parent's picture is on the page too
let shown = null;

function filter() {
  const words = at('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  tiles.forEach((tile, i) => {
    tile.hidden = !words.every(word => texts[i].includes(word));
    count += !tile.hidden;
  });
  at('none').hidden = count > 0;
  at('count').textContent =
    words.length ? count + ' of ' + tiles.length : at('count').dataset.all;
}

function show(tile) {
  if (!tile) return;
  shown = tile;
  image.src = tile.dataset.full;
  image.alt = at('prompt').textContent = tile.querySelector('p').textContent;
  at('facts').textContent =
    [...tile.querySelectorAll('small')].map(line => line.textContent).join(' \u00b7 ');
  const parent = parents.get(tile);
  at('parent').hidden = !parent;
  if (parent) at('parent').replaceChildren(miniature(parent));
  at('open').href = tile.dataset.full;
  if (!box.open) box.showModal();
}

function miniature(tile) {
  const large = tile.querySelector('img'), small = new Image();
  small.alt = '';
  small.loading = 'lazy';
  small.sizes = '64px';
  small.srcset = large.srcset;
  small.src = large.src;
  return small;
}

// The picture that a tile was made from, in its corner; or only its number, if it is not here.
function link(tile) {
  const made = tile.querySelector('.made a');
  if (!made) return;
  const parent = document.getElementById(made.hash.slice(1));
  if (!parent || !parent.dataset.full) {
    made.replaceWith(made.textContent);
    return;
  }
  parents.set(tile, parent);
  if (!tile.dataset.full) return;
  const corner = document.createElement('a');
  corner.className = 'parent';
  corner.href = made.hash;
  corner.title = tile.querySelector('.made').textContent;
  corner.setAttribute('aria-label', corner.title);
  corner.append(miniature(parent));
  tile.append(corner);
}

function step(by) {
  const all = pictures();
  show(all[(all.indexOf(shown) + by + all.length) % all.length]);
}

at('grid').addEventListener('click', event => {
  const tile = event.target.closest('figure[data-full]');
  if (!tile || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  show(event.target.closest('.parent, .made a') ? parents.get(tile) : tile);
});
at('parent').addEventListener('click', () => show(parents.get(shown)));
at('stage').addEventListener('click', () => box.close());
at('close').addEventListener('click', () => box.close());
at('next').addEventListener('click', () => step(1));
at('back').addEventListener('click', () => step(-1));
box.addEventListener('close', () => {
  image.removeAttribute('src');
  if (shown) shown.querySelector('a').focus();
});
document.addEventListener('keydown', event => {
  if (box.open && event.key === 'ArrowRight') step(1);
  else if (box.open && event.key === 'ArrowLeft') step(-1);
  else if (!box.open && event.key === '/' && document.activeElement !== at('search')) {
    event.preventDefault();
    at('search').focus();
  }
});
at('search').addEventListener('input', filter);
tiles.forEach(link);
filter();
