// Aim: what scrubbing needs of memory does not grow with the size of a file, nor with the files in a zip.
import { execFile } from 'node:child_process'
import { createWriteStream, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { openPromise } from 'yauzl'
import { ZipFile } from 'yazl'
import { createScrubber, SCRUBBED } from '../../../src/agent/redaction/scrub.ts'
import { scrubFiles } from '../../../src/agent/redaction/scrub-files.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'

const SECRET = 'pä55"w/ord&9'

test('a zip of many small files', async () => {
  const zip = new ZipFile()
  const one = randomBytes(1_000_000)
  for (let at = 0; at < 300; at++) zip.addBuffer(one, `${at}`, { compress: false })
  zip.addBuffer(Buffer.from(SECRET), 'last')
  zip.end()
  const path = join(temporaryFolder(), 'trace.zip')
  await pipeline(zip.outputStream, createWriteStream(path))
  const source = join(import.meta.dirname, '../../../src/agent/redaction')
  const program = `import { createScrubber } from '${source}/scrub.ts'
import { scrubFiles } from '${source}/scrub-files.ts'
const scrubber = createScrubber({ secrets: [process.argv[3]] })
if ((await scrubFiles([process.argv[2]], scrubber)).size === 0) console.log(process.resourceUsage().maxRSS)`
  const main = temporaryFile('scrub.mts', program)
  const { stdout } = await promisify(execFile)(process.execPath, [main, path, SECRET])
  expect(Number(stdout)).toBeGreaterThan(0)
  expect(Number(stdout)).toBeLessThan(350 * 1024)
  const zipped = await openPromise(path)
  for await (const entry of zipped.eachEntry()) {
    if (entry.fileName !== 'last') continue
    expect(String(await buffer(await zipped.openReadStreamPromise(entry)))).toBe(SCRUBBED)
  }
})

test('a file of fifty megabytes', async () => {
  const path = join(temporaryFolder(), 'large.log')
  const line = Buffer.from(`${'x'.repeat(1000)} ${SECRET}\n`.repeat(1000))
  await pipeline(
    (function* () {
      for (let at = 0; at < 50; at++) yield line
    })(),
    createWriteStream(path),
  )
  const before = process.memoryUsage().rss
  let peak = before
  const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 50)
  expect(await scrubFiles([path], createScrubber({ secrets: [SECRET] }))).toEqual(new Map())
  clearInterval(watch)
  expect(peak - before).toBeLessThan(200 * 1024 * 1024)
  expect(readFileSync(path, 'latin1')).not.toContain(SECRET.slice(3))
})
