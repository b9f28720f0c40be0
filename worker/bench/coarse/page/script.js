// A large picture: a click or the space bar changes between it and the exact one, the arrows go to
// the other runs of the prompt.
'use strict';
const view = document.getElementById('view');
const large = view.querySelector('img');
const words = view.querySelector('div');
let figures = [], at = 0, exact = false;

function show() {
  const figure = figures[exact ? 0 : at];
  large.src = figure.querySelector('img').src;
  words.textContent = figure.querySelector('figcaption').textContent;
  view.classList.add('open');
}

function step(by) {
  at = (at + by + figures.length) % figures.length;
  exact = false;
  show();
}

document.querySelectorAll('figure img').forEach(image => image.addEventListener('click', () => {
  figures = [...image.closest('.runs').children];
  at = figures.indexOf(image.closest('figure'));
  exact = false;
  show();
}));
view.addEventListener('click', event => {
  if (event.target !== large) return view.classList.remove('open');
  exact = !exact;
  show();
});
document.addEventListener('keydown', event => {
  if (!view.classList.contains('open')) return;
  if (event.key === 'Escape') view.classList.remove('open');
  else if (event.key === 'ArrowRight') step(1);
  else if (event.key === 'ArrowLeft') step(-1);
  else if (event.key === ' ') { exact = !exact; show(); }
  else return;
  event.preventDefault();
});
