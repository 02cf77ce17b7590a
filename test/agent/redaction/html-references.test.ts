// Aim: a secret goes from HTML, by whatever number or usual name its characters are written.
import { expect, test } from 'vitest'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'

test.each([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&apos;'],
  ["'", '&#39;'],
  ["'", '&#x27;'],
  ["'", '&#X00027;'],
  [' ', '&nbsp;'],
  ['\u{1F511}', '&#128273;'],
])(
  'a secret with %s as %s is found, also in JSON and where a text was cut',
  (character, reference) => {
    const one = createScrubber({ secrets: [`K3yTok${character}9zQw7Lm`] })
    const written = `K3yTok${reference}9zQw7Lm`
    for (const text of [written, written.replace('&', String.raw`\u0026`)])
      expect(one.text(`<b>${text}</b>`)).toBe(`<b>${SCRUBBED}</b>`)
    for (let cut = 5; cut < reference.length + 6; cut++)
      expect(one.text(`${written.slice(0, cut)}…`)).toBe(`${SCRUBBED}…`)
  },
)

test.each(['&hyphen;', '&dash;', '&tilde;', '&period', '&constructor;', '&;', '&#;', '&#x;'])(
  '%s stands for nothing',
  (text) => {
    const secrets = ['K3yTok-9zQw7Lm', 'K3yTok.9zQw7Lm', 'K3yTok~9zQw7Lm', 'K3yTok9zQw7Lm']
    const given = `K3yTok${text}9zQw7Lm`
    expect(createScrubber({ secrets }).text(given)).toBe(given)
  },
)
