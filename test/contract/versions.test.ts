// What each version can do comes from the manifests, and the limits of this code from the newest.
import { expect, test } from 'vitest'
import {
  compareVersions,
  LIMITS,
  manifestFor,
  MANIFESTS,
  VERSION,
} from '../../src/contract/versions.ts'

test('manifests are ordered by number, not by letter', () => {
  expect(compareVersions('8.10.0', '8.9.0')).toBeGreaterThan(0)
  expect(compareVersions('8.3.0', '8.3.0')).toBe(0)
  const versions = MANIFESTS.map(({ version }) => version)
  expect(versions).toEqual(versions.toSorted(compareVersions))
})

test.each([
  ['a milestone is its own', '8.3.0', '8.3.0'],
  ['a patch has what its milestone had', '8.3.4', '8.3.0'],
  ['between two milestones the older one holds', '7.0.3', '7.0.0'],
  ['a version from the future has the newest', '99.0.0', VERSION],
  ['before the first milestone there is nothing', '6.3.0', undefined],
])('%s', (_, version, expected) => expect(manifestFor(version)?.version).toBe(expected))

test('artifacts doubled with 6.3.2', () => {
  expect(manifestFor('6.3.1')?.limits.artifactBytesMax).toBe(75 * 1024 * 1024)
  expect(manifestFor('6.3.2')?.limits.artifactBytesMax).toBe(150 * 1024 * 1024)
  expect(LIMITS.artifactBytesMax).toBe(150 * 1024 * 1024)
})

test('every image runs only what its version knows', () => {
  for (const { checkTypes, images } of MANIFESTS) {
    for (const types of Object.values(images))
      expect(checkTypes).toEqual(expect.arrayContaining(types))
  }
})
