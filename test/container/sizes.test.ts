// Aim: the images have the sizes of the README; the agent without user code adds at most 200 MB to its Debian.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { engine } from '../support/container/container-engine.ts'
import { type Image, needImages, tagOf } from '../support/container/images.ts'

const run = promisify(execFile)
const IMAGES: Image[] = ['agent-uptime', 'agent', 'agent-migrate', 'platform']
needImages(...IMAGES)

const readme = readFileSync(join(import.meta.dirname, '../../docker/README.md'), 'utf8')

/** Megabytes beyond the base, by tag. */
const said = new Map(
  [...readme.matchAll(/^\| `(vedette\/[^`]+)` +\|.*\| (\d+) +\|$/gm)].map(
    ([, tag = '', megabytes]) => [tag, Number(megabytes)] as const,
  ),
)

async function bytesOf(tag: string): Promise<{ bytes: number; base: string }> {
  const { Size, Config } = await (await engine()).getImage(tag).inspect()
  const labels = Config.Labels as Record<string, string> | null
  return { bytes: Size, base: labels?.['org.opencontainers.image.base.name'] ?? '' }
}

test.each(['agent', 'agent-migrate'] as const)(
  '%s has no file of that size twice',
  async (image) => {
    const list = 'find /usr /opt -xdev -type f -size +50M -exec sha256sum {} + | cut -c1-64'
    const args = ['run', '--rm', '--network', 'none', '--user', '0', '--entrypoint', 'sh']
    const { stdout } = await run('docker', [...args, tagOf(image), '-c', list])
    const sums = stdout.trimEnd().split('\n')
    expect(sums.length).toBeGreaterThan(5)
    expect(new Set(sums).size).toBe(sums.length)
  },
)

test.each(IMAGES)('%s', async (image) => {
  const { bytes, base } = await bytesOf(tagOf(image))
  const beyond = (bytes - (await bytesOf(base)).bytes) / 1e6
  const table = said.get(tagOf(image)) ?? 0
  // The sizes of Debian packages change a little every week.
  expect(table).toBeGreaterThan(beyond * 0.95)
  expect(table).toBeLessThan(beyond * 1.05)
  expect(beyond).toBeLessThan(image === 'agent-uptime' ? 200 : 4000)
})
