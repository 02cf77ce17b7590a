// Aim: a secret goes from each kind of dump in rows, whatever order and base its bytes are written in.
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
  'xxd -e': `
00000000: 72657375 6e6e613d 6b6f7426 3d736e65  user=ann&tokens=
00000010: 31346261 5479334b 7a396b6f 4c377751  ab41K3yTok9zQw7L
00000020: 326d2f2b 313d7826                    +/m2&x=1
`,
  hexdump: `
0000000 7375 7265 613d 6e6e 7426 6b6f 6e65 3d73
0000010 6261 3134 334b 5479 6b6f 7a39 7751 4c37
0000020 2f2b 326d 7826 313d                    
0000028
`,
  'hexdump -x': `
0000000    7375    7265    613d    6e6e    7426    6b6f    6e65    3d73
0000010    6261    3134    334b    5479    6b6f    7a39    7751    4c37
0000020    2f2b    326d    7826    313d                                
0000028
`,
  'hexdump -C': `
00000000  75 73 65 72 3d 61 6e 6e  26 74 6f 6b 65 6e 73 3d  |user=ann&tokens=|
00000010  61 62 34 31 4b 33 79 54  6f 6b 39 7a 51 77 37 4c  |ab41K3yTok9zQw7L|
00000020  2b 2f 6d 32 26 78 3d 31                           |+/m2&x=1|
00000028
`,
  'hexdump -o': `
0000000  071565  071145  060475  067156  072046  065557  067145  036563
0000010  061141  030464  031513  052171  065557  075071  073521  046067
0000020  027453  031155  074046  030475                                
0000028
`,
  od: `
0000000 071565 071145 060475 067156 072046 065557 067145 036563
0000020 061141 030464 031513 052171 065557 075071 073521 046067
0000040 027453 031155 074046 030475
0000050
`,
  'od -x': `
0000000 7375 7265 613d 6e6e 7426 6b6f 6e65 3d73
0000020 6261 3134 334b 5479 6b6f 7a39 7751 4c37
0000040 2f2b 326d 7826 313d
0000050
`,
  'od -b': `
0000000 165 163 145 162 075 141 156 156 046 164 157 153 145 156 163 075
0000020 141 142 064 061 113 063 171 124 157 153 071 172 121 167 067 114
0000040 053 057 155 062 046 170 075 061
0000050
`,
  'od -A x -t x1z': `
000000 75 73 65 72 3d 61 6e 6e 26 74 6f 6b 65 6e 73 3d  >user=ann&tokens=<
000010 61 62 34 31 4b 33 79 54 6f 6b 39 7a 51 77 37 4c  >ab41K3yTok9zQw7L<
000020 2b 2f 6d 32 26 78 3d 31                          >+/m2&x=1<
000028
`,
  'od -A d -t x2z': `
0000000 7375 7265 613d 6e6e 7426 6b6f 6e65 3d73  >user=ann&tokens=<
0000016 6261 3134 334b 5479 6b6f 7a39 7751 4c37  >ab41K3yTok9zQw7L<
0000032 2f2b 326d 7826 313d                      >+/m2&x=1<
0000040
`,
  'od -t x4': `
0000000 72657375 6e6e613d 6b6f7426 3d736e65
0000020 31346261 5479334b 7a396b6f 4c377751
0000040 326d2f2b 313d7826
0000050
`,
  'od -t x8': `
0000000 6e6e613d72657375 3d736e656b6f7426
0000020 5479334b31346261 4c3777517a396b6f
0000040 313d7826326d2f2b
0000050
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
  [
    'hexdump',
    `0000000 334b 5479 6b6f 7a39 312d 3332 3534 000a
000000f
`,
  ],
  [
    'od',
    `0000000 031513 052171 065557 075071 030455 031462 032464 000012
0000017
`,
  ],
])('a secret is found in one row of %s', (_, dump) => {
  const clean = createScrubber({ secrets: ['K3yTok9z-12345'] }).text(dump)
  expect(clean).toBe(dump.replace(/(?<= ).*/, SCRUBBED))
})

test.each([
  ['xxd', '00000000: 4b33 7954 6f6b 397a 5177 374c 2b2f 6d32  K3yTok9zQw7L+/m2'],
  ['curl --trace', '0000: 4b 33 79 54 6f 6b 39 7a 51 77 37 4c 2b 2f 6d 32 K3yTok9zQw7L+/m2'],
  ['od', '0000000 031513 052171 065557 075071 073521 046067 027453 031155'],
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
