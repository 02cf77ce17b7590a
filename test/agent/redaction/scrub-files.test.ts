// No secret leaves in a file: not in a text of any spelling, not cut by the end of a piece, not in a trace, a
// report or anything packed; and a file that cannot be read to its end does not leave at all.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { randomBytes } from 'node:crypto'
import { array, assert, integer, property } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { buffer } from 'node:stream/consumers'
import { openPromise } from 'yauzl'
import { ZipFile } from 'yazl'
import { byteRules, ByteScrubber } from '../../../src/agent/redaction/byte-scrubber.ts'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { scrubFiles } from '../../../src/agent/redaction/scrub-files.ts'
import { createNameTest } from '../../../src/contract/protocol/sensitive-name.ts'
import { LIMITS } from '../../../src/contract/versions.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const SECRET = 'pä55"w/ord&9'
const HEADER = 'Bearer eyJhbGciOi.secret-part'
const PNG = Buffer.concat([Buffer.from('\u0089PNG\r\n\u001A\n', 'latin1'), randomBytes(5000)])

const scrubber = createScrubber({ secrets: [SECRET] })

function fileOf(content: string | Buffer, name = 'it'): string {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, content)
  return path
}

async function zipOf(files: Record<string, string | Buffer>): Promise<Buffer> {
  const zip = new ZipFile()
  for (const [name, content] of Object.entries(files)) zip.addBuffer(Buffer.from(content), name)
  zip.end()
  return buffer(zip.outputStream)
}

async function commented(comment: string): Promise<Buffer> {
  const zip = new ZipFile()
  zip.addBuffer(Buffer.from('a'), 'a')
  zip.end({ comment, forceZip64Format: false })
  return buffer(zip.outputStream)
}

/** The bytes of a zip, of its files, and of nested ones. */
async function everything(path: string): Promise<string> {
  const bytes = readFileSync(path)
  if (!bytes.subarray(0, 2).equals(Buffer.from('PK'))) return bytes.toString()
  const contents = Object.values(await unzip(path)).map((one) => everything(fileOf(one)))
  return [bytes.toString(), ...(await Promise.all(contents))].join('\n')
}

async function unzip(path: string): Promise<Record<string, Buffer>> {
  const zip = await openPromise(path)
  const files: Record<string, Buffer> = {}
  for await (const entry of zip.eachEntry()) {
    files[entry.fileName] = await buffer(await zip.openReadStreamPromise(entry))
  }
  return files
}

async function scrubbedText(text: string): Promise<string> {
  const path = fileOf(text)
  expect(await scrubFiles([path], scrubber)).toEqual(new Map())
  return readFileSync(path, 'utf8')
}

describe('a text', () => {
  test.each([
    ['a field', `{"authorization":"${HEADER}"}`, `{"authorization":"${SCRUBBED}"}`],
    [
      'a header of a HAR file',
      `{"name": "Cookie", "value": "a=b"}`,
      `{"name": "Cookie", "value": "${SCRUBBED}"}`,
    ],
    [
      'a header the other way round',
      `{"value":"a=b","name":"cookie"}`,
      `{"value":"${SCRUBBED}","name":"cookie"}`,
    ],
    [
      'a header of JSON in JSON',
      String.raw`"{\"x-api-key\":\"abc\",\"b\":1}"`,
      String.raw`"{\"x-api-key\":\"${SCRUBBED}\",\"b\":1}"`,
    ],
    // As Go and Bun write headers.
    [
      'a header with a list of values',
      '{"Cookie":[ "a=b" , "c=d"],"password":["is short"]}',
      `{"Cookie":[ "${SCRUBBED}" , "${SCRUBBED}"],"password":["is short"]}`,
    ],
    [
      'the same of JSON in JSON',
      String.raw`"{\"set-cookie\":[\"a\\\"b\",\"c\"],\"d\":1}"`,
      String.raw`"{\"set-cookie\":[\"${SCRUBBED}\",\"${SCRUBBED}\"],\"d\":1}"`,
    ],
    [
      'a line of a call log',
      `  → GET /\n    - authorization: ${HEADER}\n    - accept: */*\n`,
      `  → GET /\n    - authorization: ${SCRUBBED}\n    - accept: */*\n`,
    ],
    ['the first line', `X-Api-Key: abc\n`, `X-Api-Key: ${SCRUBBED}\n`],
    // Sources of tests stay readable; what only looks like a piece of one goes.
    ['a line with an arrow', `cookie: a=>b; c=d\n`, `cookie: ${SCRUBBED}\n`],
    ['a line that ends with a bracket', `x-api-key: hunter22{\n`, `x-api-key: ${SCRUBBED}\n`],
    ['a field like code', `{"x-api-key":"{ => ("}`, `{"x-api-key":"${SCRUBBED}"}`],
    [
      'a line of a call log in JSON',
      String.raw`{"error":"log:\n  - cookie: a=b\n  - accept: c"}`,
      String.raw`{"error":"log:\n  - cookie: ${SCRUBBED}\n  - accept: c"}`,
    ],
  ])('loses the value of %s', async (_, text, clean) => {
    expect(await scrubbedText(text)).toBe(clean)
  })

  test.each([
    ['colours of a diff', String.raw`{"m":"\u001b[32m\"pä55\u001b[7m\"w/ord&9"}`, 'w/ord'],
    ['an ellipsis', '{"log":"<p title=pä55\\"w/ord…>text</p>"}', 'pä55'],
    ['an ellipsis of JSON', String.raw`{"log":"pä55\"w/or\u2026"}`, 'pä55'],
    ['an ellipsis in front', `{"log":"…/ord&9 is wrong"}`, '/ord&9'],
    ['three dots before a quote', String.raw`{"log":"token, ...\"/ord&9\" is not JSON"}`, '/ord&9'],
    ['two ellipses', String.raw`{"log":"token, ...\"55\\\"w/ord\"... is not JSON"}`, '/ord'],
    ['three dots', `{"log":"'pä55'... 8 more characters"}`, 'pä55'],
    ['three dots after bytes', '{"log":"<Buffer 70 c3 a4 35 35 ... 8 more bytes>"}', '35 35'],
    ['what only begins like a picture', `GIF8 ${SECRET}`, SECRET],
  ])('loses a secret, or a part of it, next to %s', async (_, text, part) => {
    const clean = await scrubbedText(text)
    expect(clean).not.toContain(part)
    expect(clean).toContain(SCRUBBED)
  })

  test('keeps code that spreads what a secret ends with', async () => {
    const text = 'const all = [...ord&9, call(...ord&9)]'
    expect(await scrubbedText(text)).toBe(text)
  })

  test.each([
    ['a function', '  token: async ({ page }, use) => {\n'],
    ['a list', '  cookie: [\n'],
    ['a variable of the environment', '  authorization: process.env.API_TOKEN,\n'],
  ])('keeps the source of a test: %s', async (_, line) => {
    const text = `test.use({\n${line}`
    expect(await scrubbedText(text)).toBe(text)
  })

  test('without secrets stays as it was, byte for byte', async () => {
    const bytes = Buffer.concat([randomBytes(300_000), Buffer.from('accept: a\n{"name":"b"}')])
    const path = fileOf(bytes)
    await scrubFiles([path], scrubber)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  test('loses secrets wherever pieces of it end', () => {
    const rules = byteRules([SECRET], createNameTest())
    const run = (pieces: Buffer[]) => {
      const one = new ByteScrubber(rules)
      return Buffer.concat([...pieces.map((piece) => one.write(piece)), one.end()]).toString()
    }
    const filler = 'abc "d": e\n'.repeat(9000)
    const text = `${filler}${SECRET}${filler}"cookie":"${'c'.repeat(9000)}"${filler}${SECRET}`
    const bytes = Buffer.from(text)
    const whole = run([bytes])
    expect(whole).not.toContain(SECRET)
    expect(whole).toContain(`"cookie":"${SCRUBBED}"`)
    const cuts = array(integer({ min: 0, max: bytes.length }), { maxLength: 8 })
    assert(
      property(cuts, (given) => {
        const at = [0, ...given.toSorted((a, b) => a - b), bytes.length]
        expect(run(at.slice(1).map((end, i) => bytes.subarray(at[i], end)))).toBe(whole)
      }),
      { numRuns: 60 },
    )
  })
})

describe('a packed file', () => {
  test('a trace is scrubbed file by file, and its pictures stay', async () => {
    const trace = await zipOf({
      'trace.network': `{"headers":[{"name":"Authorization","value":"${HEADER}"}]}\n`,
      'trace.trace': `{"message":"typed ${SECRET}"}\n`,
      'resources/a.json': `{"token":"${SECRET}"}`,
      [`resources/${encodeURIComponent(SECRET)}.txt`]: 'x',
      'resources/b.png': PNG,
    })
    const path = fileOf(trace, 'trace.zip')
    await scrubFiles([path], scrubber)
    const files = await unzip(path)
    expect(Object.keys(files)).toHaveLength(5)
    expect(JSON.stringify(Object.keys(files))).not.toContain(encodeURIComponent(SECRET))
    expect(files['trace.network']?.toString()).not.toContain('eyJhb')
    expect(files['trace.trace']?.toString()).toBe(`{"message":"typed ${SCRUBBED}"}\n`)
    expect(files['resources/b.png']?.equals(PNG)).toBe(true)
  })

  test('a report that carries a zip of zips is scrubbed to its depth', async () => {
    const large = `${'a line\n'.repeat(400_000)}${SECRET}`
    const inner = await zipOf({ 'large.txt': large, 'small.txt': SECRET })
    const data = await zipOf({ 'data/trace.zip': inner, 'report.json': JSON.stringify([SECRET]) })
    const base64 = data.toString('base64')
    const page = `<!DOCTYPE html>${SECRET}<script>x = "data:application/zip;base64,${base64}";</script>`
    const path = fileOf(page, 'index.html')
    expect(await scrubFiles([path], scrubber)).toEqual(new Map())
    const html = readFileSync(path, 'utf8')
    expect(html).not.toContain(SECRET)
    const found = /base64,([A-Za-z0-9+/=]+)";<\/script>$/.exec(html)?.[1] ?? ''
    const outer = await unzip(fileOf(Buffer.from(found, 'base64')))
    expect(outer['report.json']?.toString()).toBe(`["${SCRUBBED}"]`)
    const files = await unzip(fileOf(outer['data/trace.zip'] ?? ''))
    expect(files['small.txt']?.toString()).toBe(SCRUBBED)
    expect(files['large.txt']?.toString()).toBe(large.replace(SECRET, SCRUBBED))
  })

  test('a zip that is left out says nothing of its names', async () => {
    const inner = await zipOf({ [`srv/${SECRET.replaceAll(/\W/g, 'x')}`]: 'a' })
    const bad = Buffer.from(inner.toString('latin1').replaceAll('srv/', '/srv'), 'latin1')
    const path = fileOf(await zipOf({ 'in.zip': bad }), 'trace.zip')
    expect(await scrubFiles([path], scrubber)).toEqual(new Map())
    const text = (await unzip(path))['in.zip']?.toString()
    expect(text).toBe('This file is left out: it is damaged (absolute path).\n')
  })

  test('all zips that a page carries are scrubbed, also behind a mention of how they begin', async () => {
    const prefix = 'data:application/zip;base64,'
    const zips = [await zipOf({ a: `1 ${SECRET}` }), await zipOf({ a: `2 ${SECRET}` })]
    const filler = 'x'.repeat(65_500)
    const page = zips.map((zip) => `${filler}${prefix}${zip.toString('base64')}"`).join('')
    const path = fileOf(`const P = '${prefix}'${page}${SECRET}`)
    expect(await scrubFiles([path], scrubber)).toEqual(new Map())
    const clean = readFileSync(path, 'utf8')
    expect(clean).toMatch(/"\[scrubbed\]$/)
    const inner = Array.from(clean.matchAll(/base64,(UEs[^"]+)"/g), async ([, base64 = '']) =>
      unzip(fileOf(Buffer.from(base64, 'base64'))),
    )
    const files = await Promise.all(inner)
    expect(files.map(({ a }) => a?.toString())).toEqual([`1 ${SCRUBBED}`, `2 ${SCRUBBED}`])
  })

  test('a trace and its copy in a report are scrubbed alike, whichever comes first', async () => {
    const trace = await zipOf({ 'trace.network': `a ${SECRET}` })
    const report = fileOf(await zipOf({ 'data/1.zip': trace, 'data/2.zip': trace }), 'report.zip')
    const alone = fileOf(trace, 'trace.zip')
    expect(await scrubFiles([report, alone], scrubber)).toEqual(new Map())
    const copies = await unzip(report)
    for (const zip of [readFileSync(alone), copies['data/1.zip'], copies['data/2.zip']]) {
      const files = await unzip(fileOf(zip ?? ''))
      expect(files['trace.network']?.toString()).toBe(`a ${SCRUBBED}`)
    }
  })

  test('a zip and a gzip in which nothing is found stay as they were, byte for byte', async () => {
    const packed = [await zipOf({ 'a.txt': 'a', 'in.zip': await zipOf({ b: 'b' }) }), gzipSync('c')]
    const paths = packed.map((bytes) => fileOf(bytes))
    const dirty = fileOf(SECRET)
    expect(await scrubFiles([...paths, dirty], scrubber)).toEqual(new Map())
    expect(paths.map((path) => readFileSync(path))).toEqual(packed)
    expect(readFileSync(dirty, 'utf8')).toBe(SCRUBBED)
  })

  test.each([
    ['the comment of a zip', async () => commented(SECRET)],
    ['the copy of a zip', async () => zipOf({ 'in.zip': await zipOf({ a: SECRET }) })],
  ])('%s loses its secret next to a clean one', async (_, pack) => {
    const [clean, dirty] = [fileOf(await zipOf({ a: 'a' })), fileOf(await pack())]
    expect(await scrubFiles([clean, dirty], scrubber)).toEqual(new Map())
    expect(await everything(dirty)).not.toContain(SECRET)
  })

  test('gzip is opened and packed again', async () => {
    const path = fileOf(gzipSync(`a ${SECRET}`), 'log.gz')
    await scrubFiles([path], scrubber)
    expect(gunzipSync(readFileSync(path)).toString()).toBe(`a ${SCRUBBED}`)
  })
})

test.each([
  ['a quoted value of YAML', 'a: 1\npassword: "yamlPw12345"\n', 'yamlPw12345'],
  ['credentials of a URL in JSON', '{"v":"https://bob:pw12345@h/"}', 'pw12345'],
])('%s goes', async (_, text, secret) => {
  const path = fileOf(text)
  await scrubFiles([path], createScrubber({}))
  expect(readFileSync(path, 'utf8')).not.toContain(secret)
})

test('the value of a header in one file is removed from the others', async () => {
  const har = fileOf(`{"name":"authorization","value":"${HEADER}"}`, 'a.har')
  const body = fileOf(`the server said ${HEADER.slice(7)} to me`, 'b.txt')
  await scrubFiles([body, har], scrubber)
  expect(readFileSync(body, 'utf8')).toBe(`the server said ${SCRUBBED} to me`)
})

describe('a file that cannot be scrubbed stays and is named', () => {
  const bomb = () => zipOf({ a: Buffer.alloc(3_000_000) })
  const bounds = { timeoutMs: 60_000, unpackedBytesMax: 2_000_000 }

  test.each([
    [
      'a damaged zip',
      async () => (await zipOf({ a: SECRET.repeat(100) })).subarray(0, -30),
      /damaged/,
    ],
    [
      'what is packed with xz',
      () => Promise.resolve(Buffer.from('\u00FD7zXZ\u0000', 'latin1')),
      /compression method/,
    ],
    ['a bomb', bomb, /too large when decompressed/],
    [
      'a gzip with zeros and another one behind it',
      () => Promise.resolve(Buffer.concat([gzipSync('a'), Buffer.alloc(512), gzipSync(SECRET)])),
      /does not end/,
    ],
    [
      'a gzip that ends early',
      async () => gzipSync(randomBytes(9000)).subarray(0, 4000),
      /damaged/,
    ],
  ])('%s', async (_, make, says) => {
    const bytes = await make()
    const path = fileOf(bytes)
    const problems = await scrubFiles([path], scrubber, undefined, bounds)
    expect(problems.get(path)).toMatch(says)
    expect(readFileSync(path).equals(bytes)).toBe(true)
    expect(readdirSync(dirname(path))).toEqual(['it'])
  })

  test.each([
    ['small', 5000],
    ['large', 3_000_000],
  ])('a zip whose %s content is damaged, while others are scrubbed', async (_, bytes) => {
    const damaged = await zipOf({ a: randomBytes(bytes / 2).toString('hex') })
    damaged.fill(0xff, 100, 1000)
    const [zip, text] = [fileOf(damaged), fileOf(`a ${SECRET}`)]
    const problems = await scrubFiles([zip, text], scrubber)
    expect([...problems.keys()]).toEqual([zip])
    expect(problems.get(zip)).toMatch(/damaged/)
    expect(readFileSync(text, 'utf8')).toBe(`a ${SCRUBBED}`)
  })

  test.each([
    ['more than it says', 24, 1000, /size|larger/],
    ['less than it says', 24, 20_000, /size/],
    ['what needs a password', 8, 1, /encrypted|damaged/],
    ['what is packed in an unknown way', 10, 99, /unsupported|damaged/],
  ])('a zip with small content that unpacks to %s', async (_, at, value, says) => {
    const bytes = await zipOf({ a: 'a'.repeat(9000) })
    const directory = bytes.indexOf('PK\u0001\u0002')
    bytes.writeUInt16LE(value, directory + at)
    const path = fileOf(bytes)
    expect((await scrubFiles([path], scrubber)).get(path)).toMatch(says)
  })

  test('a damaged zip, and not the report that holds a copy of it', async () => {
    const damaged = await zipOf({ a: randomBytes(2000).toString('hex') })
    damaged.fill(0xff, 100, 1000)
    const [trace, report] = [fileOf(damaged), fileOf(await zipOf({ trace: damaged, b: 'kept' }))]
    expect([...(await scrubFiles([trace, report], scrubber)).keys()]).toEqual([trace])
    const found = await unzip(report)
    expect(String(found['trace'])).toMatch(/^This file is left out: .*damaged/)
    expect(String(found['b'])).toBe('kept')
  })

  test('but not its neighbour in the zip: that one alone is replaced by the reason', async () => {
    const nested = async (depth: number): Promise<Buffer> =>
      zipOf({ 'a.zip': depth === 0 ? SECRET : await nested(depth - 1), 'b.txt': 'kept' })
    const path = fileOf(await nested(4))
    expect(await scrubFiles([path], scrubber)).toEqual(new Map())
    let found = await unzip(path)
    for (let depth = 0; depth < 2; depth++) found = await unzip(fileOf(found['a.zip'] ?? ''))
    expect(String(found['a.zip'])).toMatch(/^This file is left out: .*too deep/)
    expect(String(found['b.txt'])).toBe('kept')
  })

  test('one that is too slow', async () => {
    const path = fileOf('"a":"'.repeat(2_000_000))
    expect(
      (await scrubFiles([path], scrubber, undefined, { ...bounds, timeoutMs: 1 })).get(path),
    ).toMatch(/within 0.001 s/)
  })

  test('one that does not exist', async () => {
    const path = join(temporaryFolder(), 'none')
    expect((await scrubFiles([path], scrubber)).get(path)).toMatch(/ENOENT/)
  })
})

test('a file with more secrets than a run may know is left out', async () => {
  const line = (_: unknown, at: number) => `authorization: token-${at}-of-many\n`
  const path = fileOf(Array.from({ length: LIMITS.userCodeSecretValuesMax + 1 }, line).join(''))
  expect([...(await scrubFiles([path], createScrubber({}))).keys()]).toEqual([path])
})
