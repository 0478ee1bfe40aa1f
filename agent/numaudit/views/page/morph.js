// Makes one tree of nodes like another, and touches only what differs: focus, selection and scroll positions stay.
function morph(node, newer) {
  if (node.isEqualNode(newer)) return;
  if (node.nodeType === Node.TEXT_NODE) {
    replaceText(node, newer.data);
  } else {
    morphAttributes(node, newer);
    morphChildren(node, newer);
  }

  function replaceText(text, now) {
    const { data } = text;
    const most = Math.min(data.length, now.length);
    let same = 0;
    while (same < most && data[same] === now[same]) same += 1;
    let end = 0;
    while (end < most - same && data[data.length - 1 - end] === now[now.length - 1 - end]) end += 1;
    if (same + end < Math.max(data.length, now.length)) {
      text.replaceData(same, data.length - same - end, now.slice(same, now.length - end));
    }
  }

  function morphAttributes(element, now) {
    for (const { name } of Array.from(element.attributes)) {
      // A part that was opened stays open.
      if (!now.hasAttribute(name) && name !== "open") element.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) {
      if (element.getAttribute(name) !== value) element.setAttribute(name, value);
    }
  }

  function morphChildren(parent, now) {
    const known = new Map();
    for (const child of parent.childNodes) {
      const key = keyOf(child);
      if (!known.has(key)) known.set(key, []);
      known.get(key).push(child);
    }
    let next = parent.firstChild;
    for (const child of Array.from(now.childNodes)) {
      const found = known.get(keyOf(child))?.shift();
      if (found === undefined) {
        parent.insertBefore(parent.ownerDocument.importNode(child, true), next);
        continue;
      }
      morph(found, child);
      // One that went down in a list moves itself, instead of all that it passed.
      if (found !== next && next?.nextSibling === found) parent.append(next);
      else if (found !== next) parent.insertBefore(found, next);
      next = found.nextSibling;
    }
    for (const left of known.values()) for (const child of left) child.remove();
  }

  // Rows are the same by their first cell, parts of the page by their heading, choices by their word: wherever they are.
  function keyOf(child) {
    const first = child.firstElementChild;
    const naming = { DIV: first?.matches("h3, h4") ? first : null, TR: first, SECTION: first, OPTION: child }[child.nodeName];
    const name = naming?.textContent.replace(/: \d+ containers?$/, "");
    return `${child.nodeName} ${child.id ?? ""} ${name ?? ""}`;
  }
}
