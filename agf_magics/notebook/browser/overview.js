// The overview of a picture of which a part is out of sight: its boxes in the colours of their states, and the part in sight.

const SIZES = [[140, 110], [90, 70]]; // pixels, at most: the smaller one where the larger one would cover a box
const CORNERS = [[1, 1], [0, 1], [1, 0], [0, 0]]; // the right and the lower side are 1
const ABOVE = 9; // units of a state above its box
const TITLE = 36; // units of the title of a frame

function drawsOverview({ svgElement, dragged }) {
  class Overview {
    constructor(picture) {
      this.picture = picture;
      this.node = svgElement("svg", { class: "minimap", role: "img", "aria-label": "Overview: click to move", tabindex: -1 });
      this.node.onpointerdown = event => this.jump(event);
      picture.node.append(this.node);
    }

    draw() {
      const { picture, node } = this, [, , width, height] = picture.whole, [seenX, seenY, seenWidth, seenHeight] = picture.box, rounded = side => side.toFixed(1);
      node.toggleAttribute("hidden", !picture.isCut);
      if (!picture.isCut) return;
      if (!this.isHeld) this.place();
      const scale = Math.min(this.size[0] / width, this.size[1] / height);
      for (const [name, value] of Object.entries({ width: width * scale, height: height * scale, viewBox: picture.whole.join(" ") })) node.setAttribute(name, value);
      const boxes = [...picture.boxes].map(([i, { area: [x, y, width, height] }]) => svgElement("rect", { x, y, width, height,
        fill: picture.lookOf(i).name === "pending" ? "#8886" : picture.lookOf(i).color }));
      node.replaceChildren(...boxes, svgElement("rect", { class: "seen", "stroke-width": rounded(2 / scale),
        x: rounded(seenX), y: rounded(seenY), width: rounded(seenWidth), height: rounded(seenHeight) }));
    }

    // In the corner where it covers least of the boxes and titles in sight; where it is as long as it covers none.
    place() {
      const { picture } = this, { canvas, scale, box, whole } = picture, room = [canvas.clientWidth, canvas.clientHeight];
      const areas = [...picture.boxes.values()].map(({ id, area: [x, y, width, height] }) =>
        [x - box[0], y - ABOVE - box[1], width, (picture.found.frames.includes(id) ? TITLE : height) + ABOVE].map(side => side * scale));
      let least = Infinity;
      const places = SIZES.flatMap(size => CORNERS.map(corner => ({ size, corner })));
      if (this.size) places.unshift({ size: this.size, corner: this.corner });
      for (const { size, corner } of places) {
        const share = Math.min(size[0] / whole[2], size[1] / whole[3]), sides = [whole[2] * share, whole[3] * share];
        const at = corner.map((isFar, k) => isFar ? room[k] - sides[k] - 6 : 6), overlap = (area, k) => Math.max(0, Math.min(at[k] + sides[k], area[k] + area[k + 2]) - Math.max(at[k], area[k]));
        const covered = areas.reduce((sum, area) => sum + overlap(area, 0) * overlap(area, 1), 0);
        if (covered >= least) continue;
        least = covered;
        Object.assign(this, { size, corner });
        Object.assign(this.node.style, { left: `${canvas.offsetLeft + at[0]}px`, top: `${canvas.offsetTop + at[1]}px` });
      }
    }

    // The view moves to a place of the overview, and with the pointer. The overview itself stays below it.
    jump(event) {
      const { picture } = this, move = to => {
        const [x, y] = picture.point(to, this.node), [, , width, height] = picture.box;
        picture.isMoved = true;
        picture.show([x - width / 2, y - height / 2, width, height]);
      };
      this.isHeld = true;
      move(event);
      dragged(move, () => {
        this.isHeld = false;
        this.draw();
      });
    }
  }

  return { overview: picture => new Overview(picture) };
}
