// A release has one version everywhere: package.json, the newest heading of CHANGELOG.md and the
// newest manifest in versions/ agree, and every milestone has its manifest.
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { LIMITS, MANIFESTS, manifestFor, VERSION } from '../src/contract/versions.ts'
import { MONITOR_TYPES } from '../src/monitors/registry.ts'

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')
const headings = [...read('CHANGELOG.md').matchAll(/^## (\d+\.\d+\.\d+)/gm)].map(
  (match) => match[1],
)

describe('version', () => {
  test('package.json, CHANGELOG.md and versions/ agree', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string }
    expect({ changelog: headings[0], manifest: VERSION }).toEqual({
      changelog: version,
      manifest: version,
    })
  })

  test('the lock file names the same version', () => {
    const lock = JSON.parse(read('package-lock.json')) as { version: string }
    expect(lock.version).toBe(VERSION)
  })

  test('the images say the same version', () => {
    const versions = read('docker/Dockerfile').matchAll(/^ARG VERSION=(.*)$/gm)
    expect([...versions].map((match) => match[1])).toEqual([VERSION, VERSION, VERSION, VERSION])
  })

  test('only the first part of the change log may be unreleased', () => {
    const [first, ...released] = [...read('CHANGELOG.md').matchAll(/^## (.*)$/gm)].map(
      ([, title]) => title,
    )
    expect(first).toMatch(/^(Unreleased|\d+\.\d+\.\d+)$/)
    for (const title of released) expect(title).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('a version has at most 25 entries, each one short line', () => {
    const parts = read('CHANGELOG.md').split(/^## /m).slice(1)
    const entries = parts.map((part) => part.match(/^(?:- |  \S).*$/gm) ?? [])
    expect(parts.filter((_, index) => (entries[index]?.length ?? 0) > 25)).toEqual([])
    const isShort = (line: string) => line.startsWith('- ') && line.length <= 100
    expect(entries.flat().filter((line) => !isShort(line))).toEqual([])
  })
})

describe('manifests', () => {
  test('every milestone has one', () => {
    const milestones = ['6.3.1', '6.3.2', '7.0.0', '8.0.0', '8.3.0', '8.4.0']
    expect(MANIFESTS.map((one) => one.version)).toEqual(milestones)
  })

  test('artifacts may be 75 MB before 6.3.2 and 150 MB since', () => {
    const megabytes = MANIFESTS.map((one) => one.limits.artifactBytesMax / 1024 / 1024)
    expect(megabytes).toEqual([75, 150, 150, 150, 150, 150])
    expect(LIMITS.artifactBytesMax).toBe(150 * 1024 * 1024)
  })

  test('no image runs what its version does not know', () => {
    const unknown = MANIFESTS.flatMap((one) =>
      Object.values(one.images).flatMap((types) =>
        types.filter((type) => !one.checkTypes.includes(type)),
      ),
    )
    expect(unknown).toEqual([])
  })

  test('every type that the newest manifest promises is registered', () => {
    const promised = manifestFor(VERSION)?.checkTypes ?? []
    expect(promised.filter((type) => !MONITOR_TYPES.has(type))).toEqual([])
  })
})
