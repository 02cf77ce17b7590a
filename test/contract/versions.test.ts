// What each version can do comes from the manifest of its milestone.
import { expect, test } from 'vitest'
import { compareVersions, manifestFor, MANIFESTS, VERSION } from '../../src/contract/versions.ts'

test('manifests are ordered by number, not by letter', () => {
  expect(compareVersions('8.10.0', '8.9.0')).toBeGreaterThan(0)
  expect(compareVersions('8.3.0', '8.3.0')).toBe(0)
  const versions = MANIFESTS.map(({ version }) => version)
  expect(versions).toEqual(versions.toSorted(compareVersions))
})

test.each([
  ['a patch has what its milestone had', '8.3.4', '8.3.0'],
  ['between two milestones the older one holds', '7.0.3', '7.0.0'],
  ['a version from the future has the newest', '99.0.0', VERSION],
  ['before the first milestone there is nothing', '6.3.0', undefined],
])('%s', (_, version, expected) => expect(manifestFor(version)?.version).toBe(expected))
