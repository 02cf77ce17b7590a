// Aim: parts of a secret next to an ellipsis go from texts and files alike, whatever stands between the two.
import { describe, expect, test } from 'vitest'
import { byteRules, ByteScrubber } from '../../../src/agent/redaction/byte-scrubber.ts'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { startStopwatch } from '../../support/stopwatch.ts'

const SECRET = 'K3yTok9zQw7Lm2Xv'
const [BEGINNING, END, MIDDLE] = ['K3yTok9zQ', 'zQw7Lm2Xv', 'Tok9zQw7L']
const ESC = '\u001B'

const inText = (text: string) => createScrubber({ secrets: [SECRET] }).text(text)
function inFile(text: string): string {
  const bytes = new ByteScrubber(byteRules([SECRET], () => false))
  return Buffer.concat([bytes.write(Buffer.from(text)), bytes.end()]).toString()
}

describe.each([
  ['a text', inText],
  ['a file', inFile],
])('in %s', (_, clean) => {
  test.each([
    ['nothing, before a word', `a ${BEGINNING}...word`],
    ['nothing, after a word', `word...${END} z`],
    ['a colour', `${ESC}[32m${BEGINNING}${ESC}[39m...`],
    ['a quote and a colour', `${ESC}[32m'${BEGINNING}'${ESC}[39m... 7 more characters`],
    ['the same in JSON', String.raw`"\u001b[32m'${BEGINNING}'\u001b[39m... 7 more"`],
    ['the same in JavaScript', String.raw`\x1b[32m\"${BEGINNING}\"\x1b[39m…`],
    ['the same in a shell', String.raw`\033[32m"${BEGINNING}"\033[0m…`],
    ['a colour of many and another', `"${BEGINNING}"${ESC}[0m${ESC}[38;2;255;128;64m…${ESC}[39m`],
    ['a sequence without a colour', `'${BEGINNING}'${ESC}[0K...`],
    ['a colour in front', `at ...${ESC}[32m'${END}'${ESC}[39m`],
    ['colours on either side', `…${ESC}[32m'${MIDDLE}'${ESC}[39m…`],
    ['a backtick', `got \`${BEGINNING}\`… and no end`],
    ['a backtick in front', `...\`${END}\` is no number`],
    ['a typographic quote', `‘${BEGINNING}’…`],
    ['quotes of HTML', `Unexpected token, &quot;${BEGINNING}&quot;... is not valid JSON`],
    ['quotes of HTML by number', `&#39;${BEGINNING}&#x27;…`],
    ['a number of HTML', `<b>${BEGINNING}&#8230;</b>`],
    ['a hexadecimal number of HTML', `<b>&#x2026;${END}</b>`],
    ['half of a character', `“${BEGINNING}\uFFFD”…`],
  ])('a part goes that has %s between it and the ellipsis', (__, text) => {
    const part = [BEGINNING, END, MIDDLE].find((one) => text.includes(one)) ?? ''
    expect(clean(text)).toBe(text.replace(part, SCRUBBED))
  })

  test('the middle goes between two words', () => {
    expect(clean(`word...${MIDDLE}...word`)).toBe(`word...${SCRUBBED}...word`)
  })

  test('a word stays, though a secret begins with it', () => {
    const one = createScrubber({ secrets: ['Server=db;Password=K3yTok9z'] })
    expect(one.text('Starting Server... done')).toBe('Starting Server... done')
  })

  test('what has a blank next to an ellipsis, or no part of a secret, stays', () => {
    const text = `\`K3yT\` … K3yTok ... ${ESC}[32mK3yTok${ESC}[39m … [...\`other\`] '...'`
    expect(clean(text)).toBe(text)
  })

  test.each([
    ['quotes', '"'.repeat(400_000)],
    ['ellipses in quotes', `"'"'"'"…"'"'"'"`.repeat(30_000)],
    ['backslashes', '\\'.repeat(400_000)],
    ['unfinished sequences', `${ESC}[`.repeat(200_000)],
    ['long unfinished sequences', `${ESC}[${'0'.repeat(28)}`.repeat(13_000)],
    ['references', '&quot;'.repeat(70_000)],
    ['halves of characters', '\uFFFD'.repeat(130_000)],
  ])('the time is linear for many %s', (__, text) => {
    const ownMs = startStopwatch()
    clean(`${text}x...`)
    expect(ownMs()).toBeLessThan(5000)
  })
})

test('a part goes that ends or begins with a blank', () => {
  const one = createScrubber({ secrets: ['correct Horse battery-9 staple'] })
  expect(one.text('was correct Horse …')).toBe(`was ${SCRUBBED}…`)
  expect(one.text('… battery-9 staple now')).toBe(`…${SCRUBBED} now`)
})

test.each(['ann", "pin": ', ' "pin": 4711'])(
  'a part goes from an excerpt in quotes: %s',
  (part) => {
    const secret = '{"user": "ann", "pin": 4711}'
    const text = `at ..."${part}"... is`
    const bytes = new ByteScrubber(byteRules([secret], () => false))
    const file = Buffer.concat([bytes.write(Buffer.from(text)), bytes.end()]).toString()
    for (const clean of [createScrubber({ secrets: [secret] }).text(text), file]) {
      expect(clean).toBe(`at ..."${SCRUBBED}"... is`)
    }
  },
)
