// Aim: a secret goes from dumps of hexadecimal bytes in rows.
import { expect, test } from 'vitest'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'

/** In these dumps it begins a row, with what looks like one more byte. */
const SECRET = 'ab41K3yTok9zQw7L+/m2'

/** What these programs print of `user=ann&tokens=ab41K3yTok9zQw7L+/m2&x=1`. */
const DUMPS = {
  xxd: `
00000000: 7573 6572 3d61 6e6e 2674 6f6b 656e 733d  user=ann&tokens=
00000010: 6162 3431 4b33 7954 6f6b 397a 5177 374c  ab41K3yTok9zQw7L
00000020: 2b2f 6d32 2678 3d31                      +/m2&x=1
`,
  'xxd -u -g 1': `
00000000: 75 73 65 72 3D 61 6E 6E 26 74 6F 6B 65 6E 73 3D  user=ann&tokens=
00000010: 61 62 34 31 4B 33 79 54 6F 6B 39 7A 51 77 37 4C  ab41K3yTok9zQw7L
00000020: 2B 2F 6D 32 26 78 3D 31                          +/m2&x=1
`,
  'hexdump -C': `
00000000  75 73 65 72 3d 61 6e 6e  26 74 6f 6b 65 6e 73 3d  |user=ann&tokens=|
00000010  61 62 34 31 4b 33 79 54  6f 6b 39 7a 51 77 37 4c  |ab41K3yTok9zQw7L|
00000020  2b 2f 6d 32 26 78 3d 31                           |+/m2&x=1|
00000028
`,
  'od -A x -t x1z': `
000000 75 73 65 72 3d 61 6e 6e 26 74 6f 6b 65 6e 73 3d  >user=ann&tokens=<
000010 61 62 34 31 4b 33 79 54 6f 6b 39 7a 51 77 37 4c  >ab41K3yTok9zQw7L<
000020 2b 2f 6d 32 26 78 3d 31                          >+/m2&x=1<
000028
`,
  'od -A n -t x1': `
 75 73 65 72 3d 61 6e 6e 26 74 6f 6b 65 6e 73 3d
 61 62 34 31 4b 33 79 54 6f 6b 39 7a 51 77 37 4c
 2b 2f 6d 32 26 78 3d 31
`,
}

test.each(Object.entries(DUMPS))('a secret is found in what %s prints, also in JSON', (_, dump) => {
  const one = createScrubber({ secrets: [SECRET] })
  const inJson = JSON.parse(one.text(JSON.stringify({ dump }))) as { dump: string }
  for (const clean of [one.text(dump), inJson.dump]) {
    const [before = '', after = '', ...more] = clean.split(SCRUBBED)
    expect(more).toEqual([])
    // What comes before it, and at most what shows where the dump ends.
    expect(before).toBe(dump.slice(0, before.length))
    expect(before).toMatch(/^\n.+\n[\da-f]*:? *$/)
    expect(after).toMatch(/^(?:\n[\da-f]+| 26 78 3d 31)?\n$/)
  }
})

test.each([
  ['xxd', '00000000: 4b33 7954 6f6b 397a 5177 374c 2b2f 6d32  K3yTok9zQw7L+/m2'],
  ['curl --trace', '0000: 4b 33 79 54 6f 6b 39 7a 51 77 37 4c 2b 2f 6d 32 K3yTok9zQw7L+/m2'],
])(
  'the first row of %s may stand behind a quote, and what follows the last one stays',
  (_, row) => {
    const one = createScrubber({ secrets: ['K3yTok9zQw7L+/m2'] })
    const second = row.replace(/^0+/, (zeros) => `${zeros.slice(0, -2)}10`)
    const text = JSON.stringify({ a: 1, dump: `${row}\n${second}` })
    expect(JSON.parse(one.text(text))).toEqual({
      a: 1,
      dump: `${row.split(' ', 1)[0]} ${SCRUBBED}\n${second.split(' ', 1)[0]} ${SCRUBBED}`,
    })
  },
)

test('a part of a secret at the end of a dump that was cut is found', () => {
  const dump = DUMPS['hexdump -C'].split('\n').slice(0, 3).join('\n')
  const clean = createScrubber({ secrets: [SECRET] }).text(dump)
  expect(clean).toContain(SCRUBBED)
  expect(clean).not.toContain('ab41')
})

test('a dump whose text looks like an escape is found', () => {
  const dump = String.raw`
00000000  61 62 63 5c 72 4b 33 79  54 6f 6b 39 7a 51 77 37  |abc\rK3yTok9zQw7|
00000010  4c 2b 2f 6d 32                                    |L+/m2|
`
  const clean = createScrubber({ secrets: ['K3yTok9zQw7L+/m2'] }).text(dump)
  expect(clean).toMatch(/^\n0{8} {2}61 62 63 5c 72 \[scrubbed\]\n$/)
})

test('a dump whose text looks like ends of lines is found', () => {
  const dump = String.raw`
00000000  61 6e 6e 5c 6e 50 49 4e  37 37 2d 4b 33 79 54 6f  |ann\nPIN77-K3yTo|
00000010  6b 39 7a                                          |k9z|
`
  const clean = createScrubber({ secrets: ['ann\\nPIN77-K3yTok9z'] }).text(dump)
  expect(clean).toBe(`\n00000000  ${SCRUBBED}\n`)
})

test('a dump of a secret with ends of lines leaves nothing of its text', () => {
  const secret = 'Zq7Rk2Lm4711\r\na\r\nb\r\nc\r\nPIN77'
  const dump = `00000000  5a 71 37 52 6b 32 4c 6d  34 37 31 31 0d 0a 61 0d  |Zq7Rk2Lm4711..a.|
00000010  0a 62 0d 0a 63 0d 0a 50  49 4e 37 37              |.b..c..PIN77|
`
  expect(createScrubber({ secrets: [secret] }).text(dump)).toBe(`00000000  ${SCRUBBED}\n`)
})

test('a dump in base64 in base64 is found', () => {
  const text = btoa(btoa(DUMPS.xxd))
  expect(createScrubber({ secrets: [SECRET] }).text(text)).toContain(SCRUBBED)
})

test('a dump in a form is found', () => {
  const text = new URLSearchParams({ dump: DUMPS.xxd }).toString()
  const clean = createScrubber({ secrets: [SECRET] }).text(text)
  expect(clean).toContain(SCRUBBED)
  expect(clean).not.toMatch(/6162\+3431|2b2f|ab41/)
})

test('rows of numbers stay', () => {
  const text = '0000000 1234 5678 9012\n0000010 123 456 007\n2026 12 31 10\n'
  expect(createScrubber({ secrets: [SECRET] }).text(text)).toBe(text)
})
