// Called by vitest before all tests of the images: removes what an earlier run left behind that was killed.
import { missingImages } from './images.ts'
import { removeLeftOver } from './container-engine.ts'

export async function setup(): Promise<void> {
  if (missingImages() === undefined) await removeLeftOver()
}
