// Aim: a secret goes from HTML, whichever of their names its characters are written with.
import { expect, test } from 'vitest'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'

/** All references of https://html.spec.whatwg.org/entities.json to one character of ASCII. */
const ASCII = {
  '\t': ['Tab'],
  '\n': ['NewLine'],
  '!': ['excl'],
  '"': ['quot', 'QUOT'],
  '#': ['num'],
  $: ['dollar'],
  '%': ['percnt'],
  '&': ['amp', 'AMP'],
  "'": ['apos'],
  '(': ['lpar'],
  ')': ['rpar'],
  '*': ['ast', 'midast'],
  '+': ['plus'],
  ',': ['comma'],
  '.': ['period'],
  '/': ['sol'],
  ':': ['colon'],
  ';': ['semi'],
  '<': ['lt', 'LT'],
  '=': ['equals'],
  '>': ['gt', 'GT'],
  '?': ['quest'],
  '@': ['commat'],
  '[': ['lbrack', 'lsqb'],
  '\\': ['bsol'],
  ']': ['rbrack', 'rsqb'],
  '^': ['Hat'],
  _: ['lowbar', 'UnderBar'],
  '`': ['grave', 'DiacriticalGrave'],
  '{': ['lbrace', 'lcub'],
  '|': ['verbar', 'vert', 'VerticalLine'],
  '}': ['rbrace', 'rcub'],
}

test.each(
  Object.entries(ASCII).flatMap(([character, names]) => names.map((name) => ({ character, name }))),
)(
  'a secret with &$name; is found, also in JSON and where a text was cut',
  ({ character, name }) => {
    const one = createScrubber({ secrets: [`K3yTok${character}9zQw7Lm`] })
    const written = `K3yTok&${name};9zQw7Lm`
    for (const text of [written, written.replace('&', String.raw`\u0026`)])
      expect(one.text(`<b>${text}</b>`)).toBe(`<b>${SCRUBBED}</b>`)
    for (let cut = 5; cut < name.length + 8; cut++)
      expect(one.text(`${written.slice(0, cut)}…`)).toBe(`${SCRUBBED}…`)
  },
)

test.each(['&hyphen;', '&dash;', '&tilde;', '&period', '&constructor;', '&;', '&#;', '&#x;'])(
  '%s stands for nothing of ASCII',
  (text) => {
    const secrets = ['K3yTok-9zQw7Lm', 'K3yTok.9zQw7Lm', 'K3yTok~9zQw7Lm', 'K3yTok9zQw7Lm']
    const given = `K3yTok${text}9zQw7Lm`
    expect(createScrubber({ secrets }).text(given)).toBe(given)
  },
)
